mkdir earlier
cp -r manifests/base earlier/base
sed -i 's/tag: 1.28.0/tag: 1.27.0/' earlier/base/values.yaml
kubectl apply -k earlier/base >/dev/null
