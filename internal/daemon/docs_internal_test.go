package daemon

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/cmdline"
)

// quickstart is the page for users of the original.
func quickstart(t *testing.T) string { return page(t, "quickstart-hpe.md") }

func page(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile("../../docs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(raw), "\\\n", " ") // a command may go on in the next line
}

var (
	codeSpan    = regexp.MustCompile("`([^`]+)`")
	commandLine = regexp.MustCompile(`(?m)^    ((?:scripts|swarm-learning)/\S+ .*)$`)
	commandSpan = regexp.MustCompile("`(?:SWARM_RUNTIME=process )?(?:scripts|scripts/bin|swarm-learning/bin)/(run-sn|run-sl|run-swop|run-spire-server|run-apls)( [^`]*)?`")
)

// TestPagesCommands reads every command of the pages, the original's too, with the real option tables.
func TestPagesCommands(t *testing.T) {
	e := environment(nil)
	seen := map[string]int{}
	text := commandLine.ReplaceAllString(quickstart(t)+page(t, "operations/docker.md"), "`$1`")
	for _, m := range commandSpan.FindAllStringSubmatch(text, -1) {
		seen[m[1]]++
		err := parse(t, e, append([]string{m[1]}, strings.Fields(m[2])...), func(c *cli.Context) error {
			if c.NArg() > 0 {
				t.Errorf("%s: stray words %q", m[0], c.Args().Slice())
			}
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
	if seen["run-sn"] != 9 || seen["run-sl"] != 8 || seen["run-swop"] != 2 || seen["run-spire-server"] != 2 || seen["run-apls"] != 2 {
		t.Errorf("commands that were read: %v", seen)
	}
}

// TestAdsPagesCommand reads the command of swarmd on the page for users of Oracle's clusters.
func TestAdsPagesCommand(t *testing.T) {
	found := regexp.MustCompile(`(?m)^    swarmd (run-swop .*)$`).FindAllStringSubmatch(page(t, "quickstart-ads.md"), -1)
	if len(found) != 1 {
		t.Fatalf("%d commands", len(found))
	}
	err := parse(t, environment(nil), strings.Fields(found[0][1]), func(c *cli.Context) error {
		if c.NArg() > 0 {
			t.Errorf("stray words %q", c.Args().Slice())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestPagesOptions holds that the pages name no option that is not there.
func TestPagesOptions(t *testing.T) {
	app := newApp(environment(nil))
	scripts := []string{"run-sn", "run-sl", "run-spire-server"}
	for section := range strings.SplitSeq(quickstart(t)+page(t, "operations/docker.md"), "\n## ") {
		title, body, _ := strings.Cut(section, "\n")
		of := []string{title}
		switch title {
		case "Options of all start scripts":
			of = scripts
		case "The isolation of the ML program, and how to open it":
			of = []string{"run-sl"}
		case "run-apls", "run-sn", "run-sl", "run-swop", "run-spire-server":
		default:
			continue
		}
		found := 0
		for _, m := range codeSpan.FindAllStringSubmatch(body, -1) {
			option := strings.TrimLeft(m[1], "-")
			if option == m[1] || strings.ContainsAny(option, " =") || option == "it" {
				continue
			}
			found++
			for _, name := range of {
				i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == name })
				table := flagTable(app.Commands[i])
				if _, known := table.Add(cmdline.Originals(name, table))[option]; !known {
					t.Errorf("%s: %s has no option %s", title, name, m[1])
				}
			}
		}
		if found == 0 {
			t.Errorf("section %s names no option", title)
		}
	}
}

// documented are the options that the pages of releases 1.x and 2.x have beside Docker's, by script.
var documented = map[string]string{
	"run-sn": "apls-ip apls-port primary-apls-ip primary-apls-port secondary-apls-ip secondary-apls-port apls-pdf cacert capath cert key socket-path host-ip sentinel " +
		"sentinel-ip sentinel-api-port sentinel-api-service sn-api-port sn-api-service sn-p2p-port sn-p2p-service cmd image pid-main volumes-from-main sidecar sudo pull help",
	"run-sl": "apls-ip apls-port primary-apls-ip primary-apls-port secondary-apls-ip secondary-apls-port apls-pdf cacert capath cert key socket-path host-ip sn-ip " +
		"sn-api-service sn-api-port sn-docker-name sl-fs-port sl-fs-service ml-image ml-entrypoint ml-cmd ml-w ml-name ml-v ml-e ml-user ml-device ml-ipc ml-shm-size " +
		"ml-group-add ml-cap-add ml-security-opt ml-privileged ml-gpus ml-it cmd image pid-main volumes-from-main sidecar sudo pull help",
	"run-swop": "apls-ip apls-port primary-apls-ip secondary-apls-ip cacert capath cert key socket-path usr-dir profile-file-name sn-ip sn-api-port sn-api-service " +
		"docker-socket-file docker-group-id swop-uid sudo pull help",
}

// TestEveryDocumentedOption holds that no option of a later release is unknown to the command of its script, nor to the page.
func TestEveryDocumentedOption(t *testing.T) {
	app, text := newApp(environment(nil)), quickstart(t)
	for name, options := range documented {
		i := slices.IndexFunc(app.Commands, func(c *cli.Command) bool { return c.Name == name })
		table := flagTable(app.Commands[i])
		known := table.Add(cmdline.Originals(name, table))
		for _, option := range strings.Fields(options) {
			if _, ok := known[option]; !ok {
				t.Errorf("%s does not know --%s", name, option)
			}
			if !strings.Contains(text, "`--"+option+"`") {
				t.Errorf("the page does not name --%s of %s", option, name)
			}
		}
	}
}

// TestQuickstartIsComplete holds the page against the options of the original's page.
func TestQuickstartIsComplete(t *testing.T) {
	text := quickstart(t)
	for _, option := range strings.Fields("--hostname --name --network --net --sudo -d --detach -i --interactive -t --tty -e --env -l --label -p --publish -u --user " +
		"-v --volume -w --workdir --rm -h --help --apls-port --apls-ip --apls-docker-name --host-ip --sentinel-ip --sn-p2p-port --sn-api-port --sn-fs-port --sentinel-fs-port " +
		"-genJoinToken --gen-join-token -serverAddress --spire-docker-name --data-dir --model-dir --model-program --sn-ip --sl-fs-port --sl-platform --gpu -config --usr-dir " +
		"--init-script-name --all --apls --spire-server --sl --sl-pyt --sl-tf --sn --keep") {
		if !strings.Contains(text, "`"+option+"`") {
			t.Errorf("the page does not name %s", option)
		}
	}
}

// TestErrorsAreStillSo holds that the messages on the page of errors are still said by somebody.
func TestErrorsAreStillSo(t *testing.T) {
	var source strings.Builder
	for _, dir := range []string{".", "../launch/engine", "../launch/component", "../launch/container", "../launch/start"} {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, f := range files {
			raw, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(f, "_test.go") {
				source.Write(raw)
			}
		}
	}
	_, table, ok := strings.Cut(page(t, "operations/docker.md"), "## Errors\n")
	if !ok {
		t.Fatal("no table of errors")
	}
	said := 0
	for line := range strings.Lines(table) {
		first, _, _ := strings.Cut(strings.TrimPrefix(line, "|"), "|")
		for _, m := range codeSpan.FindAllStringSubmatch(first, -1) {
			said++
			for part := range strings.SplitSeq(m[1], "…") {
				// Kinds of paths and options come into these by name.
				if part = strings.TrimPrefix(strings.TrimSpace(part), "bad "); !strings.Contains(source.String(), part) {
					t.Errorf("nobody says %q of %q", part, m[1])
				}
			}
		}
	}
	if said < 15 {
		t.Errorf("only %d messages on the page", said)
	}
}
