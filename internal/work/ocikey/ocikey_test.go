package ocikey_test

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"regexp"
	"testing"

	"github.com/swarmd/swarmd/internal/work/ocikey"
)

// TestFiles: a configuration names its key, of which each member has another.
func TestFiles(t *testing.T) {
	var keys [][]byte
	for range 2 {
		all, err := ocikey.Files("/run/swarm/oci")
		if err != nil || len(all) != 2 || all[0].Path != ocikey.Config {
			t.Fatalf("%d files, %v", len(all), err)
		}
		if want := regexp.MustCompile(`(?s)\n\[DEFAULT\]\nuser=ocid1\.user\.\S+\n.*\nfingerprint=[0-9a-f]{2}(:[0-9a-f]{2}){15}\nkey_file=/run/swarm/oci/` + all[1].Path + "\n$"); !want.Match(all[0].Data) {
			t.Errorf("%s does not match %s", all[0].Data, want)
		}
		block, rest := pem.Decode(all[1].Data)
		if block == nil || len(rest) > 0 {
			t.Fatal("the key is no PEM")
		}
		if _, err := x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			t.Error(err)
		}
		keys = append(keys, all[1].Data)
	}
	if bytes.Equal(keys[0], keys[1]) {
		t.Error("two members have the same key")
	}
}
