cp manifests/examples/web.yaml .
mkdir -p apps/shop
cp manifests/examples/web.yaml manifests/examples/client.yaml apps/shop
