cp manifests/examples/web.yaml web.yaml
kubectl apply -f manifests/install.yaml >/dev/null
