package runjob

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/work/ocikey"
	"github.com/swarmd/swarmd/internal/work/secret"
)

// secretsDir has the secrets of a member that it has as files.
const secretsDir = "secrets"

// secretMode is that of a secret's file: nobody but its user reads it, and nothing is written to it.
func secretMode(jobfile.File) fs.FileMode { return 0o400 }

// asEnv are the names of secrets that a member has as variables.
func asEnv(all []jobfile.Secret) (names []string) {
	for _, s := range all {
		if !s.File {
			names = append(names, s.Name)
		}
	}
	return names
}

// files are the secrets that a member has as files.
func files(host secret.Dir, all []jobfile.Secret) (found []jobfile.File, err error) {
	for _, s := range all {
		if !s.File {
			continue
		}
		value, err := host.Value(s.Name)
		if err != nil {
			return nil, err
		}
		found = append(found, jobfile.File{Path: s.Name, Data: value})
	}
	return found, nil
}

// giveFiles writes a member's secrets into its directory.
func giveFiles(dir string, host secret.Dir, all []jobfile.Secret) error {
	found, err := files(host, all)
	if err != nil || len(found) == 0 {
		return err
	}
	dir = filepath.Join(dir, secretsDir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, f := range found {
		if err := putSecret(filepath.Join(dir, f.Path), f.Data); err != nil {
			return err
		}
	}
	return nil
}

// keyDir has a key of a member that signs in at a service that is not asked.
const keyDir = "oci"

// giveKey writes such a key into a folder; empty: there is none to write.
func giveKey(dir string) error {
	if dir == "" {
		return nil
	}
	all, err := ocikey.Files(dir)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	for _, f := range all {
		if err == nil {
			err = putSecret(filepath.Join(dir, f.Path), f.Data)
		}
	}
	return err
}

func putSecret(file string, value []byte) error {
	to, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, secretMode(jobfile.File{}))
	if err != nil {
		return err
	}
	_, err = to.Write(value)
	return errors.Join(err, to.Close())
}

// environ is a program's environment, with its secrets. These stand in no order: its file would keep them on the disk.
func (o order) environ() ([]string, error) {
	all := slices.Clone(o.Env)
	for _, name := range o.AsEnv {
		value, err := o.Secrets.Variable(name)
		if err != nil {
			return nil, err
		}
		all = append(all, name+"="+value)
	}
	return all, nil
}
