package runjob

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

// filling is what a member's container has before it starts.
type filling struct {
	source, secrets []jobfile.File
	key             []jobfile.File // to sign in with at a service that is not asked
	nodes           []byte         // the file that names all members
}

// fill puts that into a container that was not started: whole, before anything reads it. It is the program's own.
func fill(ctx context.Context, e *engine.Engine, id, user string, with filling) error {
	for _, part := range []struct {
		dir   string
		files []jobfile.File
		empty []string // folders
		mode  func(jobfile.File) fs.FileMode
	}{
		{runDir, append(beneath(sourceDir, with.source), jobfile.File{Path: metadataFile, Data: with.nodes}), []string{sourceDir}, modeOf},
		{oracleDir, []jobfile.File{{Path: oracleFile, Data: with.nodes}}, nil, modeOf},
		{runDir, beneath(secretsDir, with.secrets), nil, secretMode},
		{runDir, beneath(keyDir, with.key), nil, secretMode},
	} {
		if len(part.files) == 0 {
			continue
		}
		raw, err := packed(part.files, part.empty, user, part.mode)
		if err != nil {
			return err
		}
		if err := e.CopyToContainer(ctx, id, part.dir, bytes.NewReader(raw), container.CopyToContainerOptions{}); err != nil {
			return engine.Explain(fmt.Errorf("write a member's files: %w", err))
		}
	}
	return nil
}

func beneath(dir string, files []jobfile.File) (all []jobfile.File) {
	for _, f := range files {
		f.Path = path.Join(dir, f.Path)
		all = append(all, f)
	}
	return all
}

// packed is an archive of files and of the folders that they are in, which are a user's.
func packed(files []jobfile.File, folders []string, user string, mode func(jobfile.File) fs.FileMode) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	uid, gid := numbers(user)
	made := map[string]bool{".": true}
	var folder func(dir string) error
	folder = func(dir string) error {
		if made[dir] {
			return nil
		}
		made[dir] = true
		return errors.Join(folder(path.Dir(dir)), w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, Uid: uid, Gid: gid}))
	}
	for _, dir := range folders {
		if err := folder(dir); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		err := folder(path.Dir(f.Path))
		if err == nil {
			err = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: int64(mode(f) & fs.ModePerm), Size: int64(len(f.Data)), Uid: uid, Gid: gid})
		}
		if err == nil {
			_, err = w.Write(f.Data)
		}
		if err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}

// numbers are those of a container's UID:GID.
func numbers(user string) (uid, gid int) {
	u, g, _ := strings.Cut(user, ":")
	uid, _ = strconv.Atoi(u)
	gid, _ = strconv.Atoi(g)
	return uid, gid
}
