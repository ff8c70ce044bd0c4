kubectl create namespace shop
kubectl -n shop wait --for=create serviceaccount/default
kubectl -n shop create deployment web --image=busybox:1.37
kubectl -n shop run early --image=busybox:1.37
kubectl apply -f manifests/install.yaml >/dev/null
