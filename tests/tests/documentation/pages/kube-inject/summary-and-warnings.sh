mv widgets.yaml shop.yaml
