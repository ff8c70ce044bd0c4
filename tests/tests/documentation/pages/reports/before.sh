cp manifests/examples/web.yaml web.yaml
kubectl create namespace shop
kubectl -n shop wait --for=create serviceaccount/default
kubectl create namespace billing
kubectl -n billing wait --for=create serviceaccount/default
kubectl label namespace billing istio.io/rev=gone
kubectl -n billing run bill --image=busybox:1.37
kubectl -n shop create deployment early --image=busybox:1.37
kubectl -n shop rollout status deployment/early --timeout=1s || true
kubectl apply -f manifests/install.yaml >/dev/null
kubectl label namespace shop istio-injection=enabled
