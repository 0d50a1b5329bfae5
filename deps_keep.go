//go:build keepdeps

package swarmd

import (
	_ "connectrpc.com/connect"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hashicorp/raft"
	_ "github.com/hashicorp/raft-autopilot"
	_ "github.com/hashicorp/raft-wal"
	_ "github.com/libp2p/go-libp2p"
	_ "github.com/libp2p/go-libp2p/core/crypto"
	_ "github.com/libp2p/go-libp2p/gologshim"
	_ "github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	_ "github.com/libp2p/go-libp2p/p2p/transport/tcp"
	_ "github.com/multiformats/go-multistream"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spiffe/go-spiffe/v2/proto/spiffe/workload"
	_ "github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	_ "github.com/spiffe/go-spiffe/v2/workloadapi"
	_ "github.com/urfave/cli/v2"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "google.golang.org/grpc"
	_ "google.golang.org/protobuf/proto"
	_ "lukechampine.com/blake3"
)
