cp manifests/base/inject_config.yaml config.yaml
cp manifests/base/values.yaml values.yaml
cp manifests/base/mesh.yaml mesh.yaml
