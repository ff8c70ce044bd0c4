kubectl create namespace shop
kubectl label namespace shop istio-injection=enabled
kubectl apply -n shop -f manifests/examples/web.yaml
for _ in $(seq 100); do kubectl -n shop get pods -o name | grep -q web && break; sleep 0.1; done
