kubectl apply -f manifests/install.yaml >/dev/null
