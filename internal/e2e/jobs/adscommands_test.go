package jobs_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/swarmd/swarmd/internal/e2e/e2etest"
	"github.com/swarmd/swarmd/internal/shellwords"
)

// theirsOfAds are the commands of ads that the page for its users shows.
var theirsOfAds = regexp.MustCompile("`(ads opctl [^`\n]+)`")

// parses reads commands with the parser of ads itself, and carries out none.
const parses = `import json, sys
import click
from ads.opctl.cli import commands
for words in json.load(sys.stdin):
    group, name = commands, "opctl"
    while isinstance(group, click.Group):
        name, words = words[0], words[1:]
        if name not in group.commands:
            sys.exit(f"no command {name}")
        group = group.commands[name]
    try:
        group.make_context(name, list(words), resilient_parsing=False)
    except click.exceptions.Exit:
        pass
    except click.ClickException as e:
        sys.exit(f"{name} {words}: {e.format_message()}")
`

// TestCommandsOfAdsForMinutes: ads itself takes those that the page for its users shows.
func TestCommandsOfAdsForMinutes(t *testing.T) {
	if os.Getenv("SWARM_TEST_LONG") == "" {
		t.Skip("installs ads: SWARM_TEST_LONG=1 or make test-long")
	}
	page, err := os.ReadFile("../../../docs/quickstart-ads.md")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, m := range theirsOfAds.FindAllStringSubmatch(string(page), -1) {
		words, err := shellwords.Split(m[1])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, words[2:])
	}
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), e2etest.Environment(t, "ads"), "-c", parses)
	cmd.Stdin = bytes.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, e2etest.Last(string(out), 3))
	}
	if len(all) < 10 {
		t.Errorf("the page shows %d commands of ads", len(all))
	}
}
