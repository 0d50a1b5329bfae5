package metrics

import "github.com/swarmd/swarmd/internal/p2p"

// OpenHost counts on the server's Traffic.
func (s *Server) OpenHost(open func(cfg p2p.Config) (p2p.Network, error)) func(cfg p2p.Config) (p2p.Network, error) {
	return s.cfg.Traffic.OpenHost(open)
}

// Open says what is open now.
func (s *Server) Open() any { return s.cfg.Traffic.Open() }
