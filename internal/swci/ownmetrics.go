package swci

import (
	"context"
	"log/slog"
	"net"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/address"
	"github.com/swarmd/swarmd/internal/launch/start"
	"github.com/swarmd/swarmd/internal/metrics"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// metricsFlag says where a command that goes on serves its metrics.
func metricsFlag(who string) cli.Flag {
	return &cli.StringFlag{Name: metrics.Option, Usage: "`HOST:PORT` where " + who + " serves its metrics for Prometheus, such as 127.0.0.1:9464, else nowhere; whoever reaches it may read them"}
}

// openMetrics serves those of a command that goes on, as what it is called in them; svid says who it is, unless it is nil. The caller closes them.
func openMetrics(ctx context.Context, s *Session, opts *cli.Context, name string, svid func() identity.Status) (*metrics.Server, error) {
	at := opts.String(metrics.Option)
	if _, _, err := address.ParseListen(at); at != "" && err != nil {
		return nil, exit.New(exit.Usage, "", "--metrics %.260s: %w", at, err)
	}
	if start.Metrics(at).Open() && s.Env.Getenv(start.InContainer) == "" {
		s.say("metrics are served beyond this host, to whoever reaches " + at + ": let a firewall or a proxy admit your Prometheus alone")
	}
	m, err := metrics.Open(ctx, metrics.Config{
		Address: at, Local: s.Env.Getenv(start.MetricsLocal) != "", Name: name, Role: identity.RoleSWCI, SVID: svid, Listen: new(net.ListenConfig).Listen, Log: slog.New(notices{s.Env.Stderr}),
	})
	if err != nil {
		return nil, exit.New(exit.Failed, "", "%w", err)
	}
	return m, nil
}
