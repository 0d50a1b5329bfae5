package start

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/launch/component"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// SN is a Swarm Network node.
type SN struct {
	Node
	SentinelHost    string   `option:"sentinel-ip"` // equal to Host makes this node the Sentinel
	P2PPort         Port     `option:"sn-p2p-port"`
	APIPort         Port     `option:"sn-api-port"`
	FSPort          Port     `option:"sn-fs-port"`
	SentinelFSPort  Port     `option:"sentinel-fs-port"`
	Sentinel        bool     `option:"sentinel"`             // as SentinelHost equal to Host
	SentinelService string   `option:"sentinel-api-service"` // FQDN[:PORT], instead of SentinelHost
	APIService      string   `option:"sn-api-service"`       // FQDN[:PORT] of the API behind a proxy
	P2PService      string   `option:"sn-p2p-service"`       // FQDN[:PORT] of P2PPort behind a proxy
	Admit           string   `option:"admit"`
	NoFound         bool     `option:"no-found"`
	FoundAtOnce     bool     `option:"found-at-once"`
	Join            []string `option:"join"`
	LogsTo          []string `option:"logs-to"` // patterns of SPIFFE IDs, or logs.None
	// Admission is what an invitation holds by which the SN claims that it is admitted, in base64; "": nothing.
	Admission string `option:"invitation-secret,secret"`
	Waits
}

// Waits are the timeouts that SNs and SLs share: an SL asks for them, an SN has them for those who ask for nothing.
type Waits struct {
	QuorumWait    Wait   `option:"full-quorum-wait"`
	StallGrace    Wait   `option:"stall-grace"`
	QuorumSeconds string `option:"full-quorum-seconds"`    // the original's
	StallSeconds  string `option:"leader-failure-seconds"` // the original's
}

// Check finds an SN that knows no Sentinel.
func (o *SN) Check() error {
	if o.SentinelHost == "" && len(o.Join) == 0 {
		return errors.New("mandatory parameter --sentinel-ip not specified; give --sentinel to make this node the Sentinel, else the Sentinel's address, or --join with another SN's")
	}
	return nil
}

// Settle gives what was said by services and by --sentinel its place in the other fields: afterwards Host and SentinelHost say where
// the node and the Sentinel are, APIService has a port, and Sentinel is only left to say that this node is meant to found a swarm.
func (o *SN) Settle() error {
	var err error
	if o.APIService != "" {
		if o.APIService, err = service("sn-api-service", o.APIService, serviceAPIPort); err != nil {
			return err
		}
	}
	own := o.Host
	if o.P2PService != "" {
		if o.Host, err = passed("sn-p2p-service", o.P2PService, &o.P2PPort, P2PPort, "sn-p2p-port"); err != nil {
			return err
		}
	}
	if o.SentinelService != "" && o.SentinelHost == "" {
		at, err := service("sentinel-api-service", o.SentinelService, serviceAPIPort)
		if err != nil {
			return err
		}
		if o.SentinelHost, _, _ = net.SplitHostPort(at); strings.EqualFold(at, o.APIService) {
			o.SentinelHost = o.Host
		}
	}
	switch {
	case o.Sentinel && o.SentinelHost != "" && o.SentinelHost != o.Host && o.SentinelHost != own:
		return fmt.Errorf("--sentinel makes this node (%s) the Sentinel, and %s is named as the Sentinel too: give one of the two", o.Host, o.SentinelHost)
	case o.Sentinel, o.SentinelHost != "" && o.SentinelHost == own:
		o.SentinelHost = o.Host
	}
	if o.NoFound && o.Sentinel {
		return errors.New("--sentinel founds a swarm, --no-found forbids it: give one of the two")
	}
	o.SentinelService = ""
	return nil
}

// Component is the container of the SN. The paths of this host in it are checked.
func (o *SN) Component(env Env) (component.Spec, error) {
	if err := o.Check(); err != nil {
		return component.Spec{}, err
	}
	port := o.P2PPort.Or(P2PPort)
	s, err := o.component(naming.RoleSN, o.NodeName(naming.RoleSN, port), o, env)
	if err != nil {
		return s, err
	}
	s.Ports = []component.Port{{Number: int(port)}, {Number: int(o.APIPort.Or(APIPort))}, {Number: int(o.FSPort.Or(FSPort))}}
	return s, o.identify(&s, env)
}

// SpireServer is a SPIRE server with the swarm's registration entries.
type SpireServer struct {
	Config        string   `option:"config,file"` // "": one is written into the state directory
	StateDir      string   `option:"state-dir,launcher"`
	TrustDomain   string   `option:"trust-domain"`
	Nodes         []string `option:"node"` // that get entries of their own: sl/hospital-a
	FederatesWith []string `option:"federates-with"`
	Name          string   `option:"name"`
	LogLevel      string   `option:"log-level"`
	Metrics       Metrics  `option:"metrics,host"`

	SPIRE     SpireServerOptions
	Container component.Options
}

// SpireServerOptions are options of SPIRE's own program, which are passed on.
type SpireServerOptions struct {
	BindAddress       string `option:"bindAddress"`
	DataDir           string `option:"dataDir"`
	ExpandEnv         bool   `option:"expandEnv"`
	LogFile           string `option:"logFile"`
	LogFormat         string `option:"logFormat"`
	LogSourceLocation bool   `option:"logSourceLocation"`
	ServerPort        string `option:"serverPort"`
	SocketPath        string `option:"socketPath"`
}

// Args are the options as `spire-server run` takes them.
func (o SpireServerOptions) Args() (args []string) {
	for _, x := range optionsOf(reflect.ValueOf(&o).Elem()) {
		for _, text := range x.texts() {
			args = append(args, "-"+x.name+"="+text)
		}
	}
	return args
}

// NodeName is what state and registry know the server by.
func (o *SpireServer) NodeName() string {
	if o.Name != "" {
		return o.Name
	}
	return engine.RoleSpireServer
}

// Component is the container of the server. Its port is published only by Container.Publish, as the original does.
func (o *SpireServer) Component(env Env) (component.Spec, error) {
	s, err := newSpec(engine.RoleSpireServer, o.NodeName(), o.Name, o.Container, env)
	if err != nil {
		return s, err
	}
	if err := o.Metrics.publish(&s); err != nil {
		return s, err
	}
	return s, tell(&s, o, o.StateDir, env)
}
