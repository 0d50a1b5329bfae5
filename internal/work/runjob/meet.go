package runjob

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"runtime"
	"slices"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/rendezvous"
)

// ownProgram is swarmd in runDir of members that meet before their programs can.
const ownProgram = "swarmd"

// meets are the words before the command of a member whose program begins once its rank has met the others, or serves them, by swarmd at a path there; none:
// it meets nobody.
func meets(m member, swarmd string) ([]string, error) {
	at := m.program.Meeting
	if !at.Set() {
		return nil, nil
	}
	all, err := rankAddresses(m.placed.Members)
	if err != nil {
		return nil, err
	}
	x, err := rendezvous.MeetingOf(all, m.program.Rank, uint16(at.Port), m.job.ReadyTimeout) //nolint:gosec // a port
	if err != nil {
		return nil, err
	}
	return x.Wrap(swarmd), nil
}

// rankAddresses are those of ranks.
func rankAddresses(members []framework.Place) (all []netip.Addr, err error) {
	for rank, p := range members {
		a, err := netip.ParseAddr(p.Address)
		if err != nil {
			return nil, fmt.Errorf("rank %d has no address: %w", rank, err)
		}
		all = append(all, a)
	}
	return all, nil
}

// beginsAsRank has a container's program begin so, also one that is its image's own.
func beginsAsRank(ctx context.Context, e *engine.Engine, b *box) (err error) {
	if b.spec.Front, err = meets(b.member, path.Join(runDir, ownProgram)); err != nil || len(b.spec.Front) == 0 {
		return err
	}
	found, err := e.ImageInspect(ctx, b.spec.Image)
	switch {
	case err != nil:
		return engine.Explain(fmt.Errorf("look at image %.200s: %w", b.spec.Image, err))
	case found.Architecture != runtime.GOARCH:
		return fmt.Errorf("its image is for %.40s, and ranks of %s begin by this host's swarmd, which is for %s: build the image for that", found.Architecture, b.job.Framework, runtime.GOARCH)
	case len(b.spec.Entrypoint) > 0 || found.Config == nil:
		return nil
	case len(b.spec.Cmd) == 0: // an engine leaves the image's own out where words come before
		b.spec.Cmd = found.Config.Cmd
	}
	words := slices.Concat(found.Config.Entrypoint, b.spec.Cmd)
	if len(words) == 0 {
		return errors.New("its image has no command of its own: write command")
	}
	if l := framework.LauncherOf(words); l != "" {
		return fmt.Errorf("its image runs %s, which would start ranks itself: write its program as command", l)
	}
	return nil
}

// giveProgram copies swarmd into a container that was not started.
func giveProgram(ctx context.Context, e *engine.Engine, id, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read this host's swarmd: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	defer r.Close() // what writes ends then
	go func() {
		t := tar.NewWriter(w)
		err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ownProgram, Mode: 0o555, Size: info.Size()})
		if err == nil {
			_, err = io.Copy(t, f)
		}
		w.CloseWithError(errors.Join(err, t.Close()))
	}()
	if err := e.CopyToContainer(ctx, id, runDir, r, container.CopyToContainerOptions{}); err != nil {
		return engine.Explain(fmt.Errorf("give a member this host's swarmd: %w", err))
	}
	return nil
}
