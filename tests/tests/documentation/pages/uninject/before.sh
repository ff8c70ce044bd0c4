cp manifests/examples/web.yaml web.yaml
