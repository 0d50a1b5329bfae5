package image

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// TestWhatEnginesSay has the words of engines that a test can't provoke.
func TestWhatEnginesSay(t *testing.T) {
	for said, want := range map[string]string{
		"write /var/lib/docker/tmp/GetImageBlob123: no space left on device":                                                                    "free some space",
		"failed to register layer: Error processing tar file(exit status 1): write /data: no space left on device":                              "free some space",
		"Get \"https://reg.example/v2/\": dial tcp: lookup reg.example on 127.0.0.53:53: no such host":                                          "reaches registry reg.example",
		"Get \"https://reg.example/v2/\": x509: certificate signed by unknown authority":                                                        "/etc/docker/certs.d/reg.example/ca.crt",
		"Get \"https://reg.example/v2/\": http: server gave HTTP response to HTTPS client":                                                      "insecure-registries",
		"pull access denied for x, repository does not exist or may require 'docker login': denied: requested access to the resource is denied": "give the task Auth",
		"toomanyrequests: You have reached your pull rate limit":                                                                                "wait, or give",
		"Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?":                                     "start the engine",
		"manifest for reg.example/a:1 not found: manifest unknown: manifest unknown":                                                            "has no such image",
	} {
		source, err := imageNamed("reg.example/a:1")
		if err != nil {
			t.Fatal(err)
		}
		var got *engine.Error
		if !errors.As((order{source: source}).unfetched("fetch image", errors.New(said)), &got) || !strings.Contains(got.Help, want) {
			t.Errorf("%s\n→ %+v, want %q", said, got, want)
		}
	}
	source, err := imageNamed("reg.example/a:1")
	if err != nil {
		t.Fatal(err)
	}
	broken := drain(t.Context(), io.MultiReader(strings.NewReader(`{"status":"Pulling"}`+"\n"), iotest.ErrReader(io.ErrUnexpectedEOF)), progress{})
	var got *engine.Error
	if !errors.As((order{source: source}).unfetched("fetch image", broken), &got) || !strings.Contains(got.Help, "the container engine has ended") {
		t.Errorf("an engine that is killed: %+v", got)
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"auths":{"reg.example":{"auth":"YTpi"},"https://index.docker.io/v1/":{"identitytoken":"x"}}}`))
	f.Add([]byte(`{"auths":{"reg.example":{}},"credsStore":"pass"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := loginIn(raw, "reg.example")
		if err == nil && a.ServerAddress != "reg.example" {
			t.Errorf("a password of %s", a.ServerAddress)
		}
	})
}

func TestConfigs(t *testing.T) {
	for raw, want := range map[string]string{
		`{"auths":{"reg.example":{"auth":"YTpiOmM="}}}`:         "a b:c",
		`{"auths":{"https://reg.example/v1/":{"auth":"YTpi"}}}`: "a b",
		`{"auths":{"other.example":{"auth":"YTpi"}}}`:           "it has no password for reg.example: docker login reg.example adds one",
		`{"auths":{"reg.example":{}},"credsStore":"desktop"}`:   "it has no password for reg.example itself: programs that keep passwords are not run: docker login without credsStore writes it",
		`[]`: "it is no config.json of an engine: make one with docker login",
		`{"auths":{"reg.example":{"auth":"` + strings.Repeat("A", 1<<20) + `"}}}`: "it has more than 1048576 bytes",
	} {
		a, err := loginIn([]byte(raw), "reg.example")
		got := a.Username + " " + a.Password
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%.60s: %q, want %q", raw, got, want)
		}
	}
}

func TestSources(t *testing.T) {
	const d = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	for want, p := range map[string]taskfile.PullImage{
		"reg.example/org/a:1":      {OrgAndReg: "reg.example/org", RepoName: "a", Tag: "1"},
		"docker.io/library/a:1":    {RepoName: "a", Tag: "1"},
		"docker.io/org/a:latest":   {OrgAndReg: "org", RepoName: "a"},
		"reg.example/a@" + d:       {OrgAndReg: "reg.example", RepoName: "a", Tag: d},
		"reg.example/a:1@" + d:     {OrgAndReg: "reg.example", RepoName: "a", Tag: "1@" + d},
		"docker.io/library/a@" + d: {RepoName: "a@" + d},
	} {
		n, err := imageNamed(p.Image())
		if err != nil || n.String() != want {
			t.Errorf("%v: %v, %v, want %s", p, n, err, want)
		}
	}
}

// TestWhatARegistryDoesNotSay is told in this program's words, and waited for unless the answer is one.
func TestWhatARegistryDoesNotSay(t *testing.T) {
	for raw, tt := range map[string]struct {
		passes bool
		want   string
	}{
		"manifest unknown": {false, "has no such image"},
		"unauthorized: authentication required at 10.1.2.3":                                                 {false, "give the task Auth"},
		"Get \"https://reg.example/v2/\": tls: x509: certificate signed by unknown authority (10.1.2.3)":    {false, "let the engine trust"},
		"Get \"https://reg.example/v2/\": dial tcp: lookup reg.example on 10.1.2.3:53: no such host":        {true, "see that this host reaches registry reg.example"},
		"Get \"https://reg.example/v2/\": proxyconnect tcp: dial tcp 10.1.2.3:3128: connect: no such thing": {true, "the log of this host's SWOP has what the engine says"},
		"toomanyrequests: 10.1.2.3 has asked too often":                                                     {true, "wait, or give"},
		"received unexpected HTTP status: 503 Service Unavailable from 10.1.2.3":                            {true, "the log of this host's SWOP"},
	} {
		n, err := imageNamed("reg.example/org/a:1")
		if err != nil {
			t.Fatal(err)
		}
		got := order{name: "reg.example/org/a:1", source: n}.unsaid(errors.New("Error response from daemon: " + raw))
		if got.Passes != tt.passes || !strings.Contains(got.Unknown, tt.want) || strings.Contains(got.Unknown, "10.1.2.3") || got.Check() != nil {
			t.Errorf("%s: %+v", raw, got)
		}
	}
}
