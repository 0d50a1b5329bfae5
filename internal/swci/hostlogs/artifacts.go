package hostlogs

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/unpack"
)

// Bounds of what one host hands out.
const (
	maxArtifacts = 1 << 40 // bytes
	maxFiles     = 1 << 20
	maxSaid      = 4096 // lines beside the archive
)

// Fetched is what came from one host.
type Fetched struct {
	Dir   string   // where it was put; empty: there was nothing
	Files int      // how many
	Said  []string // what is not in it, as the host says
}

// leftBy is the request for what the members of an assignment have left that its host has in the start that was found, and not in an earlier one.
func leftBy(l Log) *swarmv1.LogPart {
	part := &swarmv1.LogPart{Assignment: l.Assignment, Artifacts: true, Epoch: l.Of.GetEpoch()}
	for _, m := range l.Of.GetMembers() {
		if m.GetNode() == l.Node.GetName() {
			part.Members = append(part.Members, m.GetIndex())
		}
	}
	return part
}

// Artifacts fetches what members of an assignment have left on a host into a folder of the host's name in a directory: whole, or not at all.
func Artifacts(ctx context.Context, direct *client.Direct, l Log, to string) (got Fetched, err error) {
	name := l.Node.GetName()
	at := filepath.Join(to, name)
	if err := naming.CheckNode(name); err != nil { // an SN's word, and a folder's name
		return got, fmt.Errorf("host %.64q: %w", name, err)
	}
	if l.Node.GetFsPort() == 0 {
		return got, exit.New(exit.Conflict, "start its SWOP with --swop-fs-port, and see: swarmctl get ports", "%s has no file server that is known here, and artifacts come from there alone", name)
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return got, err
	}
	defer root.Close()
	if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return got, exit.New(exit.Conflict, "move it away, or name another directory with --to", "%s is there already", at)
	}
	part := "." + name + ".part"
	defer func() {
		if gone := errors.Join(root.RemoveAll(part), root.RemoveAll(part+".tar")); err == nil {
			err = gone
		}
	}()
	if err := errors.Join(root.RemoveAll(part), root.RemoveAll(part+".tar")); err != nil { // of a try that was cut off
		return got, err
	}
	f, err := root.OpenFile(part+".tar", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return got, err
	}
	defer f.Close()
	r := &receiver{to: f, hash: sha256.New()}
	began, err := client.Logs{By: direct.By, Node: name, Role: identity.RoleSWOP}.ReadFrom(ctx, direct, l.Node, leftBy(l), r.take)
	got.Said = r.said
	if err != nil && !began {
		return got, exit.New(exit.Unreachable, "see: swarmctl get ports", "its file server, from which alone artifacts come, does not answer: %v", err)
	}
	if err == nil {
		err = r.whole()
	}
	if err != nil {
		return got, err
	}
	entries := 0
	if got.Files, entries, err = filesIn(f); err != nil {
		return got, fmt.Errorf("what %s hands out: %w", name, err)
	}
	if entries == 0 { // and no folder is in the way of what may come later
		return got, nil
	}
	if err := unpack.Archive(ctx, root, part, f, &unpack.Budget{Entries: maxFiles, Bytes: r.bytes}); err != nil {
		return got, fmt.Errorf("unpack what %s hands out: %w", name, err)
	}
	got.Dir = at
	return got, root.Rename(part, name)
}

// receiver takes the pieces of an archive, and what is said beside.
type receiver struct {
	to     io.Writer
	hash   hash.Hash
	digest []byte // as the host says it
	bytes  int64
	said   []string
}

func (r *receiver) take(lines []*swarmv1.LogLine) error {
	for _, l := range lines {
		switch digest, is := strings.CutPrefix(l.GetText(), "sha256 "); {
		case len(l.GetData()) > 0:
			if r.bytes += int64(len(l.GetData())); r.bytes > maxArtifacts {
				return fmt.Errorf("it has more than %d bytes", int64(maxArtifacts))
			}
			_, _ = r.hash.Write(l.GetData()) // never fails
			if _, err := r.to.Write(l.GetData()); err != nil {
				return err
			}
		case l.GetFrom() == "" && is:
			r.digest, _ = hex.DecodeString(digest)
		case len(r.said) < maxSaid:
			r.said = append(r.said, text.Line(l.GetFrom()+": "+l.GetText()))
		}
	}
	return nil
}

// whole holds what came to the digest that the host has said.
func (r *receiver) whole() error {
	if len(r.digest) == 0 || string(r.hash.Sum(nil)) != string(r.digest) {
		return errors.New("what came is not what the host has sent: ask again")
	}
	return nil
}

// filesIn counts the files of an archive, and all its entries. It has files and folders alone: no host hands out anything else.
func filesIn(f *os.File) (n, entries int, err error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return 0, 0, err
	}
	for r := tar.NewReader(f); ; entries++ {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return n, entries, nil
		case err != nil:
			return n, entries, fmt.Errorf("bad archive: %w", err)
		case entries >= maxFiles:
			return n, entries, fmt.Errorf("it has more than %d entries", maxFiles)
		case h.Typeflag == tar.TypeReg:
			n++
		case h.Typeflag != tar.TypeDir:
			return n, entries, fmt.Errorf("%.200q is a link, or no file", h.Name)
		}
	}
}
