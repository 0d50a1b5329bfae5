package swci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/stop"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/swci/logpack"
)

func collectCommand() *Command {
	return &Command{
		Pattern: "collect logs [DIR...]", Group: "This host",
		Summary: "Pack the logs of this host's components into one archive",
		Details: "Writes a tar.gz with what somebody who helps wants to see: versions, the nodes of the swarm and their health, what the host and its container engine say of themselves, the logs of the components that run here as containers and as processes, and the task files and profiles (*.yaml, *.yml) in the folders DIR. Then it lists what it took, and what it could not take and why. Nothing is changed, and no archive is removed or written over.\n\n" +
			"Passwords, tokens, private keys and invitations are left out where their name or form tells them, and the values of containers' variables always. The log of an SL has what its ML program printed, which may be data: the list says so. Look at the archive before it leaves the host.",
		Example: "collect logs /opt/swarm/usr --out /tmp/logs.tar.gz",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Usage: "archive `FILE`, which must not be there; swarm_logs_HOST_TIME.tar.gz in this directory if not given"},
		},
		JSON: collectedJSON{},
		Run:  collectLogs,
	}
}

// collectedJSON is `collect logs -o json`.
type collectedJSON struct {
	Archive string         `json:"archive" doc:"the file"`
	Bytes   int64          `json:"bytes" doc:"of the archive"`
	Files   []packedJSON   `json:"files" doc:"what is in it"`
	Missing []notTakenJSON `json:"missing" doc:"what is not"`
}

type packedJSON struct {
	Name  string `json:"name" doc:"in the archive"`
	Bytes int    `json:"bytes" doc:"of the file"`
	Note  string `json:"note" doc:"what is to be known of it; mostly empty"`
}

type notTakenJSON struct {
	Name string `json:"name" doc:"in the archive, if it were there"`
	Why  string `json:"why" doc:"why it is not"`
}

func collectLogs(ctx context.Context, s *Session, args Args) error {
	now := s.Env.Now().UTC()
	path := args.Opts.String("out")
	if path == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find name of the host: %w", err)
		}
		path = fmt.Sprintf("swarm_logs_%s_%s.tar.gz", filepath.Base(host), now.Format("20060102T150405Z"))
	}
	if _, err := os.Lstat(path); err == nil {
		return archiveThere(path)
	}
	cfg := logpack.Config{Scope: engine.Scope(s.Env.Getenv), Dirs: args.Rest, Texts: collectTexts(ctx, s, args), Now: now}
	e, err := stop.Open(ctx, s.Env.Getenv)
	if err != nil {
		cfg.NoEngine = err.Error()
	} else {
		defer e.Close()
		cfg.Engine = e
	}
	out, err := atomicfile.Create(path, 0o600)
	if err != nil {
		return exit.New(exit.Failed, "name another file with --out", "make archive: %w", err)
	}
	defer out.Close()
	rows, err := logpack.Write(ctx, out, cfg)
	if err != nil {
		return err
	}
	info, err := out.Stat()
	if err == nil {
		err = out.New()
	}
	if errors.Is(err, fs.ErrExist) {
		return archiveThere(path)
	}
	if err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return showCollected(s, path, info.Size(), rows)
}

func archiveThere(path string) error {
	return exit.New(exit.Conflict, "name another file with --out", "%s is there already", path)
}

// collectTexts are what swarmctl itself knows: its version, and what the swarm says where one is known.
func collectTexts(ctx context.Context, s *Session, args Args) []logpack.Text {
	texts := []logpack.Text{{Name: "collected.txt", Data: fmt.Appendf(nil, "collected %s\n", s.Env.Now().UTC().Format(time.RFC3339))}}
	lines := [][]string{{"version"}, {"list", "contexts"}, {"list", "nodes"}, {"get", "health"}, {"list", "contracts"}}
	_, unknown := s.target(args.Opts)
	for _, words := range lines {
		t := logpack.Text{Name: "swarm/" + strings.Join(words, "-") + ".txt"}
		if c := s.Grammar.named(words); unknown != nil && c != nil && c.Shell && words[1] != "contexts" {
			t.Err = unknown
			texts = append(texts, t)
			continue
		}
		var said bytes.Buffer
		one := *s
		one.JSON, one.Env.Stdout, one.Env.Stderr = false, &said, &said
		command, parsed, err := s.Grammar.find(words)
		if err == nil {
			parsed.Opts = args.Opts
			err = command.Run(ctx, &one, parsed)
		}
		if err != nil && !exit.IsSaid(err) {
			fmt.Fprintf(&said, "%v\n", err)
		}
		t.Data = said.Bytes()
		texts = append(texts, t)
	}
	return texts
}

func showCollected(s *Session, path string, size int64, rows []logpack.Row) error {
	out := collectedJSON{Archive: path, Bytes: size, Files: []packedJSON{}, Missing: []notTakenJSON{}}
	t := table{header: []string{"FILE", "BYTES", "NOTE"}}
	for _, r := range rows {
		if r.Taken {
			out.Files = append(out.Files, packedJSON{r.Name, r.Bytes, r.Note})
			t.add(r.Name, fmt.Sprint(r.Bytes), r.Note)
			continue
		}
		out.Missing = append(out.Missing, notTakenJSON{r.Name, r.Note})
		t.add(r.Name, "-", "not taken: "+r.Note)
	}
	return s.show(out, func() error {
		if err := t.print(s.Env.Stdout); err != nil {
			return err
		}
		fmt.Fprintf(s.Env.Stderr, "wrote %s, %d bytes: look at it before it leaves this host\n", path, size)
		return nil
	})
}
