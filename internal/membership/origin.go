package membership

import (
	"strconv"

	"github.com/swarmd/swarmd/consensus/backup"
)

// Origin is what a backup says of this SN: what the one that takes its place may be started with.
func (s *Member) Origin() backup.Origin {
	o := backup.Origin{
		Version: s.cfg.Version,
		Options: map[string]string{
			"host-ip": s.cfg.Host, "sentinel-ip": s.cfg.SentinelHost,
			"sn-p2p-port": strconv.Itoa(s.cfg.P2PPort), "sn-api-port": strconv.Itoa(s.cfg.APIPort), "sn-fs-port": strconv.Itoa(s.cfg.FSPort),
		},
		Bundles: map[string][][]byte{},
	}
	for _, b := range bundles(s.cfg.Source, s.cfg.Domains) {
		o.Bundles[b.TrustDomain] = b.Certificates
	}
	return o
}
