kubectl -n shop create deployment web --image=busybox:1.37
for _ in $(seq 100); do kubectl -n shop get pods -l app=web -o name | grep -q web && break; sleep 0.1; done
kubectl -n shop run own --image=busybox:1.37 --labels=sidecar.istio.io/inject=false
sed 's/tag: 1.28.0/tag: 1.28.1/' manifests/base/values.yaml >values.yaml
kubectl -n istio-system create configmap istio-sidecar-injector --from-file=config=manifests/base/inject_config.yaml \
  --from-file=values=values.yaml --dry-run=client -o yaml | kubectl apply -f -
