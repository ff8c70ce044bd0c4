cp manifests/examples/web.yaml web.yaml
kubectl create namespace shop
kubectl -n shop wait --for=create serviceaccount/default
kubectl -n shop run web --image=busybox:1.37 --labels=app=web
kubectl apply -f manifests/install.yaml >/dev/null
