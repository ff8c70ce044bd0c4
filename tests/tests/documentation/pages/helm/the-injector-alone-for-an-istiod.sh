helm uninstall outrigger --namespace istio-system
