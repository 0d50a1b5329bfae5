package swci_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/swarmd/swarmd/internal/adsfile"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/internal/policy/rights"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/swci"
	"github.com/swarmd/swarmd/internal/taskfile"
)

// adsPage is the page for users of Oracle's clusters.
func adsPage(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/quickstart-ads.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var (
	inlineCode = regexp.MustCompile("`([^`\n]+)`")
	codeLine   = regexp.MustCompile(`(?m)^    (\S.*)$`)
	yamlBlock  = regexp.MustCompile("(?s)\n```yaml\n(.*?\n)```\n")
)

// theirs are commands of others that the page shows, by their first words.
var theirs = []string{
	"ads opctl distributed-training init", "ads opctl distributed-training build-image", "ads opctl distributed-training publish-image", "ads opctl distributed-training show-config", "ads opctl run",
	"ads opctl watch", "ads opctl cancel", "ads opctl check", "ads opctl delete", "ads opctl configure", "docker build", "docker push", "docker save", "docker load",
}

// TestAdsPagesCommands reads each command of ours with the grammar, and finds that there is no command that nobody has read.
func TestAdsPagesCommands(t *testing.T) {
	page := adsPage(t)
	g, err := swci.NewGrammar()
	if err != nil {
		t.Fatal(err)
	}
	plain := yamlBlock.ReplaceAllString(page, "\n")
	var all []string
	for _, m := range inlineCode.FindAllStringSubmatch(plain, -1) {
		all = append(all, m[1])
	}
	for _, m := range codeLine.FindAllStringSubmatch(plain, -1) {
		all = append(all, strings.TrimPrefix(m[1], "0 3 * * * "))
	}
	seen := map[string]int{}
	for _, line := range all {
		words, err := shellwords.Split(line)
		if err != nil || len(words) < 2 {
			continue
		}
		switch words[0] {
		case "swarmctl":
			seen["swarmctl"]++
			if len(words) < 3 && words[1] != "doctor" {
				continue // a command is named
			}
			if named := []string{"swarmctl explain job", "swarmctl run job", "swarmctl get job status"}; slices.Contains(named, line) {
				continue
			}
			if err := g.Check(words[1:]); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		case "ads", "docker":
			seen[words[0]]++
			if !slices.ContainsFunc(theirs, func(s string) bool { return strings.HasPrefix(line, s) }) && line != "ads opctl" {
				t.Errorf("%s: nobody knows this command", line)
			}
		case "swarmd": // internal/daemon reads it
			seen["swarmd"]++
		}
	}
	if seen["swarmctl"] < 25 || seen["ads"] < 13 || seen["docker"] < 4 || seen["swarmd"] != 1 {
		t.Errorf("commands that were read: %v", seen)
	}
	for _, command := range theirs {
		if !strings.Contains(page, "`"+command) {
			t.Errorf("the page has no %s", command)
		}
	}
}

// TestAdsPagesFiles reads each block of YAML as what it is.
func TestAdsPagesFiles(t *testing.T) {
	seen := map[string]int{}
	for _, m := range yamlBlock.FindAllStringSubmatch(adsPage(t), -1) {
		body := []byte(m[1])
		switch {
		case adsfile.Is(body):
			seen["ads"]++
			got, err := adsfile.Read("f", body, adsfile.Images{})
			if err != nil {
				t.Fatalf("%s%v", body, err)
			}
			if _, err := framework.WorldOf(got.Job); err != nil {
				t.Errorf("%s%v", body, err)
			}
		case strings.Contains(m[1], "\nsentences:\n"):
			seen["policy"]++
			if _, err := policy.Parse("f", body, "lab.example"); err != nil {
				t.Errorf("%s%v", body, err)
			}
		case strings.HasPrefix(m[1], "Name: "):
			seen["task"]++
			if _, _, err := taskfile.ReadTask("f", body); err != nil || len(taskfile.LintTask("f", body)) > 0 {
				t.Errorf("%s%v, %v", body, err, taskfile.LintTask("f", body))
			}
		case strings.HasPrefix(m[1], "groupname: "):
			seen["profile"]++
			if _, _, err := taskfile.ReadProfile("f", body); err != nil {
				t.Errorf("%s%v", body, err)
			}
		default:
			seen["job"]++
			j, err := jobfile.Read("f", body)
			if err != nil {
				t.Fatalf("%s%v", body, err)
			}
			if _, err := framework.WorldOf(j); err != nil {
				t.Errorf("%s%v", body, err)
			}
		}
	}
	if seen["ads"] != 1 || seen["policy"] != 2 || seen["task"] != 2 || seen["profile"] != 1 || seen["job"] != 1 {
		t.Errorf("blocks that were read: %v", seen)
	}
}

// TestAdsPagesRights reads the sentences of the example as those of a swarm.
func TestAdsPagesRights(t *testing.T) {
	var all []string
	for _, m := range codeLine.FindAllStringSubmatch(yamlBlock.ReplaceAllString(adsPage(t), "\n"), -1) {
		if strings.HasPrefix(m[1], "Allow ") {
			all = append(all, m[1])
		}
	}
	if _, err := rights.Canonical(all); err != nil || len(all) != 4 {
		t.Errorf("%d sentences: %v", len(all), err)
	}
}
