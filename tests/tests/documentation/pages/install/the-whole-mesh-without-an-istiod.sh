kubectl create namespace shop
