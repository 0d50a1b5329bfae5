package daemon

import (
	"context"
	"log/slog"
	"net"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/metrics"
)

// metricsFlag says where a component serves its metrics. What is no node has no variable for it: that of a host is its node's.
func metricsFlag(who string, variables ...string) cli.Flag {
	return &cli.StringFlag{
		Name: metrics.Option, EnvVars: variables,
		Usage: "HOST:PORT where " + who + " serves its metrics for Prometheus, such as 127.0.0.1:9464 (default: nowhere); whoever reaches it may read them",
	}
}

// openMetrics serves those of what is no node. The caller closes them.
func openMetrics(ctx context.Context, e Env, at start.Metrics, name string, role identity.Role, log *slog.Logger) (*metrics.Server, error) {
	sayOpen(at, e, log)
	return metrics.Open(ctx, metrics.Config{
		Address: string(at), Local: e.Getenv(start.MetricsLocal) != "", Name: name, Role: role, Listen: new(net.ListenConfig).Listen, Log: log,
	})
}

// sayOpen warns of metrics that others than this host's users may read.
func sayOpen(at start.Metrics, e Env, log *slog.Logger) {
	if at.Open() && e.Getenv(start.InContainer) == "" {
		log.Warn("metrics are served beyond this host, to whoever reaches the address: they name nodes and contracts, so let a firewall or a proxy admit your Prometheus alone", "address", at)
	}
}
