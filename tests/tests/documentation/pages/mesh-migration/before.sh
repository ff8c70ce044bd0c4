kubectl create namespace istio-system
openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj /O=cluster.local -keyout key.pem -out cert.pem \
  -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign 2>/dev/null
kubectl -n istio-system create secret generic istio-ca-secret --from-file=ca-cert.pem=cert.pem --from-file=ca-key.pem=key.pem
kubectl create -f istiod.yaml
kubectl create -f manifests/mesh/crds.yaml
kubectl create -f definition.yaml
for _ in $(seq 100); do kubectl get peerauthentications,authorizationpolicies >/dev/null 2>&1 && break; sleep 0.1; done
kubectl create namespace shop
kubectl label namespace shop istio-injection=enabled
kubectl apply -n shop -f manifests/examples/web.yaml
kubectl create -f policy.yaml
