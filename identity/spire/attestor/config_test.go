package attestor

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/spiffe/spire-plugin-sdk/proto/spire/service/common/config/v1"

	"github.com/swarmd/swarmd/identity"
)

const someDigest = "1f4ebd50d3df02bfc101d54d0d799f14357e798d44941ab2ab537f52819884dd"

func TestParseConfig(t *testing.T) {
	c, err := parseConfig(`digests = ["` + someDigest + `"] roles { sn = [0] swci = [0, 1000] }`)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := parseDigest(someDigest)
	if len(c.digests) != 1 || !c.digests[d] {
		t.Errorf("digests: %v", c.digests)
	}
	if len(c.roles) != 2 || !slices.Equal(c.roles[identity.RoleSWCI], []uint32{0, 1000}) {
		t.Errorf("roles: %v", c.roles)
	}
	if c, err = parseConfig(`{"roles": {"sl": [7]}}`); err != nil || !slices.Equal(c.roles[identity.RoleSL], []uint32{7}) {
		t.Errorf("JSON: %v, %v", c, err)
	}
}

func TestBadConfig(t *testing.T) {
	for text, want := range map[string]string{
		`digest = []`:                 `unknown option "digest"; did you mean digests?`,
		`frobnicate = 1`:              `want one of digests, roles`,
		`roles { sm = [0] }`:          `unknown role "sm"`,
		`roles { sn = ["root"] }`:     `want user IDs, which are numbers`,
		`roles { sn = [-1] }`:         `no user ID`,
		`roles { sn = [4294967296] }`: `no user ID`,
		`roles { sn = 0 }`:            `want a list`,
		`roles = 3`:                   `want a block`,
		`digests = []`:                `want a list such as`,
		`digests = "x"`:               `want a list such as`,
		`digests = [1]`:               `want texts in quotes`,
		`digests = ["abcd"]`:          `want the 64 hexadecimal digits`,
		"roles {}\nroles {}":          `stands there twice`,
		`roles "sn" { x = [1] }`:      `not understood`,
		`digests = [`:                 `plugin_data:`,
		`{"\0`:                        `neither HCL nor JSON`, // the parser panics
		strings.Repeat(" ", 70<<10):   `at most 65536 are read`,
		`digests = [` + strings.Repeat(`"`+someDigest+`",`, 300) + `]`: `at most 256`,
	} {
		_, err := parseConfig(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %q", text, err, want)
		}
	}
}

// TestBadConfigLeavesTheOldOne: a mistake in a reload must not open or shut anything.
func TestBadConfigLeavesTheOldOne(t *testing.T) {
	p, _ := configured(t, "")
	before := p.config
	if _, err := p.Configure(t.Context(), &configv1.ConfigureRequest{HclConfiguration: "x = 1"}); err == nil {
		t.Error("a bad configuration was taken")
	}
	if p.config != before {
		t.Error("a bad configuration changed the one in force")
	}
	v, err := p.Validate(t.Context(), &configv1.ValidateRequest{HclConfiguration: "x = 1"})
	if err != nil || v.GetValid() || len(v.GetNotes()) != 1 {
		t.Errorf("Validate: %v, %v", v, err)
	}
	if v, err = p.Validate(t.Context(), &configv1.ValidateRequest{}); err != nil || !v.GetValid() {
		t.Errorf("Validate of nothing: %v, %v", v, err)
	}
}

func TestBlock(t *testing.T) {
	dir := t.TempDir()
	swarmd, swarmctl := filepath.Join(dir, "swarmd"), filepath.Join(dir, "swarmctl")
	for path, text := range map[string]string{swarmd: "d", swarmctl: "c"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := NewBlock(swarmd, map[identity.Role][]uint32{identity.RoleSN: {0, 5}})
	if err != nil {
		t.Fatal(err)
	}
	const (
		sumD = "18ac3e7343f016890c510e93f935261169d9e3f565436429830faf0934f4f8e4"
		sumC = "2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6"
	)
	want := `WorkloadAttestor "swarm" {
  plugin_cmd = "` + swarmd + `"
  plugin_args = ["spire-plugin"]
  plugin_checksum = "` + sumD + `"
  plugin_data {
    digests = ["` + sumD + `", "` + sumC + `"]
    roles {
      sn = [0, 5]
    }
  }
}
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b, want)
	}
	link := filepath.Join(t.TempDir(), PluginName)
	if err := os.Symlink(swarmd, link); err != nil {
		t.Fatal(err)
	}
	b, err = NewBlock(link, nil)
	if err != nil || len(b.Args) != 0 || !slices.Equal(b.Digests, []string{sumD, sumC}) {
		t.Errorf("called as the plugin: %+v, %v", b, err)
	}
	if _, err := NewBlock(filepath.Join(dir, "absent"), nil); err == nil {
		t.Error("a block for no file")
	}
}

func FuzzConfig(f *testing.F) {
	f.Add(`digests = ["` + someDigest + `"] roles { sn = [0] }`)
	f.Add(`roles "a" "b" {`)
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfig(text)
		if err == nil && c == nil {
			t.Error("neither configuration nor error")
		}
	})
}
