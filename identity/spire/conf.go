package spire

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl"
	"github.com/spiffe/go-spiffe/v2/spiffeid"

	"github.com/swarmd/swarmd/identity/spire/attestor"
	"github.com/swarmd/swarmd/internal/atomicfile"
)

// DefaultTrustDomain is the trust domain of a swarm that names none.
const DefaultTrustDomain = "swarm.learning"

const (
	confFile  = "server.conf"
	confLimit = 1 << 20 // bytes that are read of a file which a user or SPIRE wrote
)

// defaultConf is a SPIRE server's configuration. Certificates live an hour, so that a node that lost its entry is out
// within the hour; the authority that signs them lives a week, and those of agents a sixth of that at most.
const defaultConf = `# Written by swarmd run-spire-server when there was no such file; change it as you like, it is never written again.
server {
    bind_address          = "0.0.0.0"
    bind_port             = 8081
    socket_path           = %[1]q
    trust_domain          = %[2]q
    data_dir              = %[3]q
    log_level             = "WARN"
    ca_key_type           = "ec-p256"
    ca_ttl                = "168h"
    default_x509_svid_ttl = "1h"

    # So long the server may be away: an agent that joined with a token and whose own certificate has ended needs another token.
    agent_ttl             = "24h"

    # A new agent is of no use before the server has read its entries again.
    experimental {
        cache_reload_interval = "1s"
    }
}

plugins {
    DataStore "sql" {
        plugin_data {
            database_type     = "sqlite3"
            connection_string = %[4]q
        }
    }

    KeyManager "disk" {
        plugin_data {
            keys_path = %[5]q
        }
    }

    NodeAttestor "join_token" {
        plugin_data {}
    }
}
`

// settings is what swarmd must know of a server's configuration.
type settings struct {
	socket      string
	logFile     string // "": the server logs to its standard output
	trustDomain string // "" if neither file nor options name it
	port        int
}

// writeConf writes the default configuration into the state directory unless there is one, and returns its path.
func writeConf(dir, trustDomain string) (string, error) {
	path := filepath.Join(dir, confFile)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o700); err != nil {
		return "", fmt.Errorf("make data directory: %w", err)
	}
	text := fmt.Sprintf(defaultConf, filepath.Join(dir, "api.sock"), trustDomain, data,
		filepath.Join(data, "datastore.sqlite3"), filepath.Join(data, "keys.json"))
	if err := atomicfile.Replace(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("write SPIRE server configuration: %w", err)
	}
	return path, nil
}

// readSettings reads a server's configuration file; options on the command line win over it, as they do for the server.
func readSettings(path string, args []string) (settings, error) {
	raw, err := readBounded(path)
	if err != nil {
		return settings{}, fmt.Errorf("read SPIRE configuration: %w", err)
	}
	text := string(raw)
	if switched(args, "expandEnv") {
		text = expand(text)
	}
	s, err := parseSettings(text)
	if err != nil {
		return settings{}, fmt.Errorf("read SPIRE server configuration %s: %w", path, err)
	}
	if v, ok := argument(args, "socketPath"); ok {
		s.socket = v
	}
	if v, ok := argument(args, "logFile"); ok {
		s.logFile = v
	}
	if v, ok := argument(args, "trustDomain"); ok {
		s.trustDomain = v
	}
	if v, ok := argument(args, "serverPort"); ok {
		if s.port, err = strconv.Atoi(v); err != nil {
			return settings{}, fmt.Errorf("-serverPort %s is no port", v)
		}
	}
	if s.socket == "" {
		s.socket = DefaultServerSocket
	}
	if s.port == 0 {
		s.port = 8081
	}
	if s.socket, err = filepath.Abs(s.socket); err != nil {
		return settings{}, err
	}
	return s, checkSettings(s)
}

func parseSettings(text string) (settings, error) {
	var conf struct {
		Server struct {
			SocketPath  string `hcl:"socket_path"`
			LogFile     string `hcl:"log_file"`
			TrustDomain string `hcl:"trust_domain"`
			BindPort    int    `hcl:"bind_port"`
		} `hcl:"server"`
	}
	err := decode(&conf, text)
	return settings{socket: conf.Server.SocketPath, logFile: conf.Server.LogFile, trustDomain: conf.Server.TrustDomain, port: conf.Server.BindPort}, err
}

// decode reads a configuration of SPIRE's, HCL or JSON.
func decode(into any, text string) error {
	return attestor.Guard(func() error { return hcl.Decode(into, text) })
}

// expand puts in variables of the environment as SPIRE's programs do with -expandEnv.
func expand(text string) string {
	return os.Expand(text, func(key string) string {
		if key == "$" {
			return "$"
		}
		return os.Getenv(key)
	})
}

func checkSettings(s settings) error {
	if len(s.socket) > maxSocket {
		return fmt.Errorf("the path of the SPIRE server's API socket has %d bytes, at most %d work: %s: use a shorter --state-dir, or -socketPath", len(s.socket), maxSocket, s.socket)
	}
	if s.trustDomain == "" {
		return nil
	}
	if _, err := spiffeid.TrustDomainFromString(s.trustDomain); err != nil {
		return fmt.Errorf("trust domain %q of the SPIRE server: %w", s.trustDomain, err)
	}
	return nil
}

// readBounded reads a file that a user or SPIRE wrote.
func readBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.IsDir() || info.Size() > confLimit {
		return nil, fmt.Errorf("%s is no file of at most %d bytes", path, confLimit)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, confLimit)) // a device has no size
}

// argument returns the value of the last -name=V, --name=V or -name V among a program's arguments, "" for an option that
// stands alone.
func argument(args []string, name string) (value string, given bool) {
	for i, a := range args {
		key, v, joined := strings.Cut(a, "=")
		if key != "-"+name && key != "--"+name {
			continue
		}
		if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			v = args[i+1]
		}
		value, given = v, true
	}
	return value, given
}

// switched reports whether an option that takes no value is on.
func switched(args []string, name string) bool {
	v, given := argument(args, name)
	on, err := strconv.ParseBool(v)
	return given && (v == "" || err == nil && on)
}
