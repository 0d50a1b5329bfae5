package enginetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/launch/engine"
)

// Loading an image takes an engine many seconds, so that private ones find theirs in place: a dockerd has hard links to the
// files of the machine's engine, which nothing writes to; Podman reads a store that is made once.

// linkImages makes a data root for a dockerd in a directory of its own. It has images of the machine's engine, which must keep
// them as dockerd does itself.
func linkImages(ctx context.Context, from *engine.Engine, dir string, images []string) error {
	info, err := from.Info(ctx)
	if err != nil {
		return err
	}
	if info.Driver != "overlay2" {
		return fmt.Errorf("the machine's engine keeps images in %s", info.Driver)
	}
	names, paths := map[string]map[string]string{}, []string{}
	for _, name := range images {
		img, err := from.ImageInspect(ctx, name)
		if err != nil {
			return err
		}
		repository, _, _ := strings.Cut(name, ":")
		names[repository] = map[string]string{name: img.ID}
		layers, err := layerPaths(info.DockerRootDir, img.RootFS.Layers)
		if err != nil {
			return err
		}
		_, id, _ := strings.Cut(img.ID, ":")
		paths = append(append(paths, "image/overlay2/imagedb/content/sha256/"+id), layers...)
	}
	// Engines may have a mount on their data root, across which there are no links: a look below all mounts is free of them.
	const script = `set -e
from=$1 dir=$2 top=$(stat -c %m "$2")
shift 2
mkdir -p "$dir/below" "$dir/root"
mount --bind "$top" "$dir/below"
from=$dir/below/${from#"$top"}
cd "$dir/below/${dir#"$top"}/root"
for path; do
  mkdir -p "${path%/*}"
  [ -e "$path" ] || [ -L "$path" ] || cp -al "$from/$path" "$path"
done`
	args := append([]string{"--mount", "sh", "-c", script, "sh", info.DockerRootDir, dir}, paths...)
	if out, err := exec.CommandContext(ctx, "unshare", args...).CombinedOutput(); err != nil { //nolint:gosec // engines' own names
		return fmt.Errorf("link images: %w: %s", err, out)
	}
	text, err := json.Marshal(map[string]any{"Repositories": names})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "root/image/overlay2/repositories.json"), text, 0o600)
}

// layerPaths names what an engine keeps of an image's layers, each of which is named for all that is below it, too.
func layerPaths(root string, layers []string) (paths []string, err error) {
	chain := ""
	for i, diff := range layers {
		if i == 0 {
			chain = diff
		} else {
			sum := sha256.Sum256([]byte(chain + " " + diff))
			chain = "sha256:" + hex.EncodeToString(sum[:])
		}
		_, id, _ := strings.Cut(chain, ":")
		entry := "image/overlay2/layerdb/sha256/" + id
		dir, err := os.ReadFile(filepath.Join(root, entry, "cache-id"))
		if err != nil {
			return nil, err
		}
		short, err := os.ReadFile(filepath.Join(root, "overlay2", string(dir), "link"))
		if err != nil {
			return nil, err
		}
		paths = append(paths, entry, "overlay2/"+string(dir), "overlay2/l/"+string(short))
	}
	return paths, nil
}

// stores is where Podman's images are kept for all tests: as large as they are.
func stores(t testing.TB) string {
	t.Helper()
	cache := os.Getenv("SWARM_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "swarmd")
	}
	dir := filepath.Join(cache, "podman")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

// store returns a directory in which Podman finds an image of the machine's engine. Nobody removes it before the test ends.
// load is a command that loads an image into a given store.
func store(t testing.TB, from *engine.Engine, image string, load func(root string) *exec.Cmd) string {
	t.Helper()
	img, err := from.ImageInspect(t.Context(), image)
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := strings.Cut(img.ID, ":")
	dir := filepath.Join(stores(t), id[:16])
	lock, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	for {
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_SH); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
		if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil { // others wait, or were first
			t.Fatal(err)
		}
		if _, err := os.Stat(dir); err == nil {
			continue
		}
		if err := fill(t.Context(), from, image, dir, load(dir+".part")); err != nil {
			t.Fatalf("load %s into Podman: %v", image, err)
		}
		forget(dir)
	}
}

func fill(ctx context.Context, from *engine.Engine, image, dir string, load *exec.Cmd) error {
	part := dir + ".part"
	empty := func() error { // what a killed test left, too
		return errors.Join(unmountAll(part), os.RemoveAll(part))
	}
	if err := empty(); err != nil {
		return err
	}
	archive, err := from.ImageSave(ctx, []string{image})
	if err != nil {
		return err
	}
	defer archive.Close()
	load.Stdin = archive
	if out, err := load.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%w: %s", err, last(string(out), 20)), empty())
	}
	if err := unmountAll(part); err != nil {
		return err
	}
	return os.Rename(part, dir)
}

// forget removes all stores but the given one, which is new, and the newest of the others, which another clone may need.
func forget(keep string) {
	all, _ := filepath.Glob(filepath.Join(filepath.Dir(keep), strings.Repeat("?", 16)))
	newest, at := "", int64(0)
	for _, dir := range all {
		if info, err := os.Stat(dir); err == nil && dir != keep && info.ModTime().UnixNano() > at {
			newest, at = dir, info.ModTime().UnixNano()
		}
	}
	for _, dir := range all {
		if dir == keep || dir == newest {
			continue
		}
		lock, err := os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}

// load copies images from one engine to another without holding them.
func load(ctx context.Context, from, to *engine.Engine, images []string) error {
	if len(images) == 0 {
		return nil
	}
	archive, err := from.ImageSave(ctx, images)
	if err != nil {
		return err
	}
	defer archive.Close()
	res, err := to.ImageLoad(ctx, archive)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return err
	}
	if strings.Contains(string(text), `"error"`) {
		return fmt.Errorf("load %v: %s", images, text)
	}
	return nil
}
