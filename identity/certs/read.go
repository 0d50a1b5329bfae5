package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/swarmd/swarmd/identity"
)

// Bounds of what is read: these files may be written by others than who runs the node.
const (
	maxPair     = 256 << 10 // bytes of a certificate chain or a key
	maxCAFile   = 1 << 20
	maxCABytes  = 8 << 20 // of all CA files together
	maxCAFiles  = 256
	maxEntries  = 1024 // names in a CA directory
	maxCAs      = 1024
	beginMarker = "-----BEGIN "
)

// FileError is a file or directory of an option that can not be used.
type FileError struct {
	Option string // "--cert", or what was done
	Path   string
	Dir    bool
	Err    error
}

// Error says it as the scripts of the original do: "bad file".
func (e *FileError) Error() string {
	what := "bad file"
	if e.Dir {
		what = "bad directory"
	}
	return fmt.Sprintf("%s: %s %s: %s", e.Option, what, e.Path, reason(e.Err))
}

// Unwrap returns the reason.
func (e *FileError) Unwrap() error { return e.Err }

func reason(err error) string {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("uid %d, which runs this, may not read it", os.Geteuid())
	}
	return err.Error()
}

// readFile reads a regular file of at most limit bytes; private refuses one that other users may read.
func readFile(path string, limit int64, private bool) ([]byte, error) {
	// Without O_NONBLOCK a FIFO would block the node.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	if private {
		if err := checkPrivate(path, info); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("it is too large: at most %d KiB are read", limit>>10)
	}
	return data, nil
}

// checkPrivate refuses a key that others than its owner may read. A key of root may be read by its group: so systems
// hand keys to services (Debian's ssl-cert, Kubernetes' fsGroup).
func checkPrivate(path string, info fs.FileInfo) error {
	forbidden := fs.FileMode(0o077)
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 {
		forbidden = 0o037
	}
	if mode := info.Mode().Perm(); mode&forbidden != 0 {
		return fmt.Errorf("it has mode %04o, so that others may read the key: run chmod 0600 %s", mode, path)
	}
	return nil
}

// blocks returns all PEM blocks of data. A block that is damaged or cut off is an error, not left out.
func blocks(data []byte) ([]*pem.Block, error) {
	begun := 0
	for line := range bytes.Lines(data) {
		if bytes.HasPrefix(line, []byte(beginMarker)) {
			begun++
		}
	}
	var out []*pem.Block
	for {
		var b *pem.Block
		if b, data = pem.Decode(data); b == nil {
			break
		}
		out = append(out, b)
	}
	if len(out) != begun {
		return nil, fmt.Errorf("a PEM block is damaged or not whole (%d begin, %d can be read)", begun, len(out))
	}
	return out, nil
}

// parseCertificates returns the certificates among the PEM blocks of data, in their order; there may be none.
func parseCertificates(data []byte, most int) ([]*x509.Certificate, error) {
	all, err := blocks(data)
	if err != nil {
		return nil, err
	}
	var out []*x509.Certificate
	for _, b := range all {
		if b.Type != "CERTIFICATE" {
			continue
		}
		if len(out) == most {
			return nil, fmt.Errorf("it has more than %d certificates", most)
		}
		c, err := identity.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d can not be read: %w", len(out)+1, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// parseKey returns the one private key among the PEM blocks of data: PKCS #8, PKCS #1 or SEC 1.
func parseKey(data []byte) (crypto.Signer, error) {
	all, err := blocks(data)
	if err != nil {
		return nil, err
	}
	var found crypto.Signer
	for _, b := range all {
		if !strings.HasSuffix(b.Type, "PRIVATE KEY") {
			continue
		}
		if b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != "" {
			return nil, errors.New("the key is encrypted: nobody is there to type its passphrase; decrypt it with openssl pkey -in FILE -out NEWFILE")
		}
		if found != nil {
			return nil, errors.New("it has more than one private key")
		}
		if found, err = parseKeyBlock(b); err != nil {
			return nil, err
		}
	}
	if found == nil {
		return nil, errors.New("it has no private key in PEM form")
	}
	return found, nil
}

func parseKeyBlock(b *pem.Block) (crypto.Signer, error) {
	var (
		key any
		err error
	)
	switch b.Type {
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(b.Bytes)
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(b.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(b.Bytes)
	default:
		return nil, fmt.Errorf("a key of the form %.40q is not known: want PKCS #8, PKCS #1 or SEC 1", b.Type)
	}
	if err != nil {
		return nil, fmt.Errorf("the key can not be read: %w", err)
	}
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		return k, nil
	case *rsa.PrivateKey:
		return k, nil
	case ed25519.PrivateKey:
		return k, nil
	}
	return nil, fmt.Errorf("a key of type %T is not supported: use ECDSA, RSA or Ed25519", key)
}

// publicKey is what all public keys of the standard library are.
type publicKey interface{ Equal(x crypto.PublicKey) bool }

func belongs(key crypto.Signer, cert *x509.Certificate) bool {
	pub, ok := key.Public().(publicKey)
	return ok && pub.Equal(cert.PublicKey)
}

// caFile is one file with CA certificates.
type caFile struct {
	option, path string
	lenient      bool // of a directory: it may hold no certificate
}

// caFiles lists the files of --cacert and --capath, those of the directory by name. Names that begin with a dot are left
// out, and so are directories: Kubernetes keeps its own there.
func caFiles(file, dir string) ([]caFile, error) {
	var out []caFile
	if file != "" {
		out = append(out, caFile{"--cacert", file, false})
	}
	if dir == "" {
		return out, nil
	}
	bad := func(err error) error { return &FileError{"--capath", dir, true, err} }
	d, err := os.Open(dir)
	if err != nil {
		return nil, bad(err)
	}
	defer d.Close()
	if info, err := d.Stat(); err != nil || !info.IsDir() {
		return nil, bad(errors.Join(err, errors.New("it is no directory")))
	}
	entries, err := d.ReadDir(maxEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, bad(err)
	}
	if len(entries) > maxEntries {
		return nil, bad(fmt.Errorf("it has more than %d entries", maxEntries))
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, &FileError{"--capath", path, false, err}
		}
		if info.Mode().IsRegular() {
			out = append(out, caFile{"--capath", path, true})
		}
	}
	if len(out) > maxCAFiles {
		return nil, bad(fmt.Errorf("it has more than %d files", maxCAFiles))
	}
	return out, nil
}

// readCAs reads all CA certificates, each once, in the order of the files.
func readCAs(file, dir string) ([]*x509.Certificate, error) {
	files, err := caFiles(file, dir)
	if err != nil {
		return nil, err
	}
	var (
		out   []*x509.Certificate
		total int
		seen  = map[string]bool{}
	)
	for _, f := range files {
		bad := func(err error) error { return &FileError{f.option, f.path, false, err} }
		data, err := readFile(f.path, maxCAFile, false)
		if err != nil {
			return nil, bad(err)
		}
		if total += len(data); total > maxCABytes {
			return nil, bad(fmt.Errorf("the CA files have more than %d MiB together", maxCABytes>>20))
		}
		found, err := parseCertificates(data, maxCAs)
		if err == nil && len(found) == 0 && !f.lenient {
			err = errors.New("it has no certificate in PEM form")
		}
		if err != nil {
			return nil, bad(err)
		}
		for _, c := range found {
			if !c.BasicConstraintsValid || !c.IsCA {
				return nil, bad(fmt.Errorf("%.120q is no CA certificate", c.Subject.String()))
			}
			if !seen[string(c.Raw)] {
				seen[string(c.Raw)] = true
				out = append(out, c)
			}
		}
	}
	if len(out) == 0 {
		return nil, &FileError{"--capath", dir, true, errors.New("no file in it has a CA certificate in PEM form")}
	}
	if len(out) > maxCAs {
		return nil, fmt.Errorf("more than %d CA certificates are given", maxCAs)
	}
	return out, nil
}
