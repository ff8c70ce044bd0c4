kubectl apply -f manifests/install-mesh.yaml >/dev/null
