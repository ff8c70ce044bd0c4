cp manifests/base/values.yaml values.yaml
kubectl create namespace istio-system
