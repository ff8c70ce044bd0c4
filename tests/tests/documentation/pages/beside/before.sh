kubectl create namespace shop
kubectl label namespace shop istio.io/dataplane-mode=ambient
kubectl apply -f manifests/install.yaml >/dev/null
