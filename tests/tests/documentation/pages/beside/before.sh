kubectl create namespace shop
kubectl -n shop wait --for=create serviceaccount/default
kubectl label namespace shop istio.io/dataplane-mode=ambient
kubectl apply -f manifests/install.yaml >/dev/null
