// Package ocikey makes what the library of Oracle's ads opctl signs in with: it wants a key before it looks at anything else, also where it then asks no service. A key
// of here is made for one member, is known to nobody, and opens nothing.
package ocikey

import (
	"crypto/md5" //nolint:gosec // fingerprints of keys are defined so there
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"path"
	"strings"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Config is the file that OCI_CONFIG_FILE names, among those of [Files].
const Config = "config"

const keyFile = "key.pem"

// bits are what OCI takes of a key.
const bits = 2048

// Files are a configuration and its key, for a member that finds them in the folder dir.
func Files(dir string) ([]jobfile.File, error) {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("# made by swarmd for one member of a job: it opens nothing\n[DEFAULT]\nuser=ocid1.user.oc1..none\ntenancy=ocid1.tenancy.oc1..none\nregion=us-ashburn-1\nfingerprint=%s\nkey_file=%s\n",
		fingerprint(public), path.Join(dir, keyFile))
	return []jobfile.File{
		{Path: Config, Data: []byte(text)},
		{Path: keyFile, Data: pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})},
	}, nil
}

func fingerprint(public []byte) string {
	sum := md5.Sum(public) //nolint:gosec // as above
	var pairs []string
	for _, b := range sum {
		pairs = append(pairs, hex.EncodeToString([]byte{b}))
	}
	return strings.Join(pairs, ":")
}
