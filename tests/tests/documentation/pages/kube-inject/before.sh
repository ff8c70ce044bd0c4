cp manifests/examples/web.yaml .
