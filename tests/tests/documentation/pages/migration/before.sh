kubectl create namespace istio-system
kubectl -n istio-system create configmap istio --from-file=mesh=manifests/base/mesh.yaml
kubectl -n istio-system create configmap istio-sidecar-injector \
  --from-file=config=manifests/base/inject_config.yaml --from-file=values=manifests/base/values.yaml
kubectl create -f istiod.yaml
