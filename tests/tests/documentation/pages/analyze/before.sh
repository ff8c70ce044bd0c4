kubectl create namespace shop
kubectl -n shop wait --for=create serviceaccount/default
kubectl -n shop run early --image=busybox:1.37
kubectl apply -f manifests/install.yaml >/dev/null
kubectl label namespace shop istio-injection=enabled
