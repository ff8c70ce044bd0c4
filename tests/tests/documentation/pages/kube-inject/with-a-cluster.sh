kubectl apply -f manifests/install.yaml >/dev/null
kubectl create namespace mesh-system
kubectl -n mesh-system create configmap istio-canary --from-file=mesh=manifests/base/mesh.yaml
kubectl -n mesh-system create configmap istio-sidecar-injector-canary \
  --from-file=config=manifests/base/inject_config.yaml --from-file=values=manifests/base/values.yaml
