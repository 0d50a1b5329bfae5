package userdirs_test

import (
	"errors"
	"testing"

	"github.com/swarmd/swarmd/internal/userdirs"
)

func TestDirs(t *testing.T) {
	type env = map[string]string
	for _, tt := range []struct {
		name                               string
		root                               bool
		env                                env
		user, nodes, authority, components string
	}{
		{"root", true, env{"HOME": "/root", "XDG_RUNTIME_DIR": "/run/user/0"}, "/root/.local/state", "/var/lib/swarmd", "/run/swarmd/authority", "/run/swarmd/components"},
		{"a user", false, env{"HOME": "/home/a"}, "/home/a/.local/state", "/home/a/.local/state/swarmd", "/home/a/.local/state/swarmd/authority", "/home/a/.local/state/swarmd/components"},
		{
			"with variables", false,
			env{"HOME": "/home/a", "XDG_STATE_HOME": "/s", "XDG_RUNTIME_DIR": "/r"},
			"/s", "/s/swarmd", "/r/swarmd/authority", "/r/swarmd/components",
		},
		{
			"relative ones count as none", false,
			env{"HOME": "/home/a", "XDG_STATE_HOME": "s", "XDG_RUNTIME_DIR": "r"},
			"/home/a/.local/state", "/home/a/.local/state/swarmd", "/home/a/.local/state/swarmd/authority", "/home/a/.local/state/swarmd/components",
		},
	} {
		d := userdirs.Dirs{Getenv: func(k string) string { return tt.env[k] }, Root: tt.root}
		for _, c := range []struct {
			of   func() (string, error)
			want string
		}{{d.User, tt.user}, {d.Nodes, tt.nodes}, {d.SPIREServer, tt.nodes + "/spire-server"}, {d.Authority, tt.authority}, {d.Components, tt.components}} {
			if got, err := c.of(); got != c.want || err != nil {
				t.Errorf("%s: %s, %v, want %s", tt.name, got, err, c.want)
			}
		}
	}
}

func TestNowhere(t *testing.T) {
	d := userdirs.Dirs{Getenv: func(string) string { return "" }}
	for _, of := range []func() (string, error){d.User, d.Nodes, d.SPIREServer, d.Authority, d.Components} {
		if _, err := of(); !errors.Is(err, userdirs.ErrNone) {
			t.Errorf("got %v", err)
		}
	}
}
