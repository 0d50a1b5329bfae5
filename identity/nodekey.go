package identity

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/crypto/pb"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

const (
	nodeKeyFile = "node.key"
	maxSmall    = 64 << 10 // bound of the small files that are read whole
)

// LoadOrCreateNodeKey returns the node's Ed25519 libp2p key from dir/node.key. It makes dir (0700) and the key (0600)
// if they are missing, whole or not at all. A key that others may read, or a damaged one, is an error, as is a missing one
// beside a swarm ID: a new key would be a new node, whose name, and whose place among the SNs, belong to the old one.
func LoadOrCreateNodeKey(dir string) (crypto.PrivKey, error) {
	if err := PrivateDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, nodeKeyFile)
	raw, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(filepath.Join(dir, swarmIDFile)); err == nil {
			return nil, fmt.Errorf("load node key: %s is missing, and this node has been in a swarm: put it back, or delete the state directory %s to make a new node", path, dir)
		}
		return createNodeKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("load node key: %w", err)
	}
	key, err := crypto.UnmarshalPrivateKey(raw)
	if err != nil || key.Type() != pb.KeyType_Ed25519 {
		return nil, fmt.Errorf("load node key: %s is damaged: restore it from a backup, or delete the state directory %s to make a new node", path, dir)
	}
	return key, nil
}

func createNodeKey(path string) (crypto.PrivKey, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create node key: %w", err)
	}
	raw, err := crypto.MarshalPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("create node key: %w", err)
	}
	if err := atomicfile.New(path, raw, 0o600); err != nil {
		return nil, fmt.Errorf("create node key: %w", err)
	}
	return key, nil
}

// PeerID returns the libp2p peer ID of a node key.
func PeerID(key crypto.PrivKey) (peer.ID, error) {
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("derive peer ID: %w", err)
	}
	return id, nil
}

// VerifyNodeSignature checks a signature that the node key behind the peer ID made over msg. Only Ed25519 peer IDs,
// which hold their public key, are accepted. Errors of a wrong signature wrap ErrBadSignature.
func VerifyNodeSignature(peerID string, msg, sig []byte) error {
	id, err := peer.Decode(peerID)
	if err != nil {
		return fmt.Errorf("verify node signature: peer ID %.80q: %w", peerID, err)
	}
	key, err := id.ExtractPublicKey()
	if err != nil || key.Type() != pb.KeyType_Ed25519 {
		return fmt.Errorf("verify node signature: peer ID %s holds no Ed25519 key", id)
	}
	if ok, err := key.Verify(msg, sig); err != nil || !ok {
		return fmt.Errorf("verify node signature of %s: %w", id, ErrBadSignature)
	}
	return nil
}

// readPrivate reads a small file that must be closed to other users.
func readPrivate(path string) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o: others may read it; run chmod 0600 %s", path, info.Mode().Perm(), path)
	}
	if info.Size() > maxSmall {
		return nil, fmt.Errorf("%s has %d bytes: too large", path, info.Size())
	}
	return os.ReadFile(path)
}
