// A gRPC application that speaks xDS itself: a server and its client, configured
// by the bootstrap file in GRPC_XDS_BOOTSTRAP. And servers without xDS, for probes.
//
//	grpc-application serve ADDRESS
//	grpc-application call TARGET
//	grpc-application health ADDRESS
//	grpc-application no-health ADDRESS
//
// The client prints the identities of both, as their certificates name them. The
// server with health serves the service "db", and does not serve "ill".
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	xdscredentials "google.golang.org/grpc/credentials/xds"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/xds"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("expected a command and an ADDRESS or TARGET")
	}
	commands := map[string]func(string) error{
		"serve":     serve,
		"call":      call,
		"health":    serveHealth,
		"no-health": func(address string) error { return listen(grpc.NewServer(), address) },
	}
	run, known := commands[os.Args[1]]
	if !known {
		log.Fatal("unknown command ", os.Args[1])
	}
	if err := run(os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func serve(address string) error {
	options := xdscredentials.ServerOptions{FallbackCreds: insecure.NewCredentials()}
	creds, err := xdscredentials.NewServerCredentials(options)
	if err != nil {
		return err
	}
	server, err := xds.NewGRPCServer(grpc.Creds(creds), grpc.UnaryInterceptor(tellIdentity))
	if err != nil {
		return err
	}
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	return listen(server, address)
}

func serveHealth(address string) error {
	states := health.NewServer()
	states.SetServingStatus("db", grpc_health_v1.HealthCheckResponse_SERVING)
	states.SetServingStatus("ill", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, states)
	return listen(server, address)
}

func listen(server interface{ Serve(net.Listener) error }, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	return server.Serve(listener)
}

// Answers with the client's identity in a header.
func tellIdentity(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	client, _ := peer.FromContext(ctx)
	if err := grpc.SetHeader(ctx, metadata.Pairs("client", identity(client))); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

func call(target string) error {
	options := xdscredentials.ClientOptions{FallbackCreds: insecure.NewCredentials()}
	creds, err := xdscredentials.NewClientCredentials(options)
	if err != nil {
		return err
	}
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(creds))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var header metadata.MD
	var server peer.Peer
	_, err = grpc_health_v1.NewHealthClient(connection).Check(ctx, &grpc_health_v1.HealthCheckRequest{},
		grpc.WaitForReady(true), grpc.Header(&header), grpc.Peer(&server))
	if err != nil {
		return err
	}
	fmt.Printf("client %v, server %v\n", header.Get("client")[0], identity(&server))
	return connection.Close()
}

// The URI in a peer's certificate.
func identity(of *peer.Peer) string {
	info, ok := of.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return "without certificate"
	}
	return fmt.Sprint(info.State.PeerCertificates[0].URIs[0])
}
