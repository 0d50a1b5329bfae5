package swci

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	idpattern "github.com/swarmd/swarmd/identity/pattern"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/shell"
)

// TestWebWords holds that each names a command, once.
func TestWebWords(t *testing.T) {
	g, err := NewGrammar()
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for _, c := range g.Commands() {
		left[strings.Join(c.compiled.keywords(), " ")] = true
	}
	for _, w := range webWords {
		if !left[w.name] {
			t.Errorf("%s is no command, or is named twice", w.name)
		}
		delete(left, w.name)
	}
}

// TestClientsOfAnotherDomain holds that a pattern which no client can match is no silent mistake.
func TestClientsOfAnotherDomain(t *testing.T) {
	own, err := idpattern.ParseList([]string{"spiffe://h.org/swarm/swci/ada", "spiffe://h.org/swarm/swci/*"})
	if err != nil {
		t.Fatal(err)
	}
	if err := ofDomain(own, "h.org"); err != nil {
		t.Error(err)
	}
	const want = "--web-client=spiffe://h.org/swarm/swci/ada: clients are of this SWCI's trust domain, h.or"
	if err := ofDomain(own, "h.or"); err == nil || err.Error() != want || exit.Code(err) != exit.Usage {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestAllowInWeb(t *testing.T) {
	root := t.TempDir()
	usr := filepath.Join(root, "usr")
	if err := os.MkdirAll(filepath.Join(usr, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(usr, "out")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(usr)
	g, err := NewGrammar()
	if err != nil {
		t.Fatal(err)
	}
	inUsr, nowhere := shell.New(shell.Config{Dir: usr}), shell.New(shell.Config{})
	for _, tt := range []struct {
		line string
		sh   *shell.Shell
		want string
	}{
		{"LIST NODES", inUsr, ""},
		{"list nodes -o json", inUsr, ""},
		{"create contract c --min-peers 2", inUsr, ""},
		{"unknown words", inUsr, ""}, // refused by who parses it
		{"create contract c --cert x", inUsr, "option --cert is not for web mode"},
		{"create context c h --identity=embedded", inUsr, "option --identity is not for web mode"},
		{"create context c --invite x", inUsr, "option --invite is not for web mode"},
		{"get contract status c --sn h:1", inUsr, "option --sn is not for web mode"},
		{"help -serverAddress h", inUsr, "option -serverAddress is not for web mode"},
		{"get model c --out /etc/x", inUsr, "get model is not for web mode"},
		{"Local Run --model-program x.yaml", inUsr, "local run is not for web mode"},
		{"cd below", inUsr, ""},
		{"cd /platform/swarm/usr", inUsr, ""},
		{"cd /platform/swarm/usr/below", inUsr, ""},
		{"cd /platform/swarm/usr/..", inUsr, "/platform/swarm/usr/.. is not in the user directory"},
		{"cd ..", inUsr, ".. is not in the user directory"},
		{"cd out", inUsr, "out is not in the user directory"},
		{"cd " + usr + "x", inUsr, usr + "x is not in the user directory"},
		{"ls -- -l below .", inUsr, ""},
		{"ls", inUsr, ""},
		{"ls -- b*", inUsr, ""},
		{"ls -- /platform/swarm/usr/b*", inUsr, ""},
		{"ls -- *", inUsr, "* is not in the user directory"}, // a link that leads out is among them
		{"ls -- ../*", inUsr, "../* is not in the user directory"},
		{"ls -- b*/../..", inUsr, "b*/../.. is not in the user directory"},
		{"ls -- /etc/*", inUsr, "/etc/* is not in the user directory"},
		{"ls -- below /", inUsr, "/ is not in the user directory"},
		{"ls -- out/x", inUsr, "out/x is not in the user directory"},
		{"create task from below/x.yaml", inUsr, "below/x.yaml is not in the user directory"}, // it is not there
		{"create task from below", inUsr, ""},
		{"create task from /etc/hostname", inUsr, "/etc/hostname is not in the user directory"},
		{"create task RUN_SWARM a b c d", inUsr, ""},
		{"append task body t 1 --cert x", inUsr, ""}, // all of it is the line
		{"ls", nowhere, ". is not in the user directory"},
		{"cd .", nowhere, ". is not in the user directory"},
	} {
		words, err := shellwords.Split(tt.line)
		if err != nil {
			t.Fatal(err)
		}
		l, err := g.split(words)
		if err != nil {
			t.Fatalf("%s: %v", tt.line, err)
		}
		err = g.allowInWeb(t.Context(), tt.sh, g.named(l.Words), l)
		switch {
		case tt.want == "" && err == nil:
		case err == nil || err.Error() != tt.want || exit.Code(err) != exit.Denied:
			t.Errorf("%s: %v, want %q", tt.line, err, tt.want)
		}
	}
}
