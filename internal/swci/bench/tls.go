package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

// tlsChunk is the size of one write: that of the exchange's leaves.
const tlsChunk = 256 << 10

// TLSSpeed measures how many bytes per second one Go TLS 1.3 connection over loopback carries in one direction, for about
// the given time. It is the yardstick of this machine in this minute.
func TLSSpeed(ctx context.Context, d time.Duration) (float64, error) {
	config, err := selfSigned()
	if err != nil {
		return 0, err
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		return 0, fmt.Errorf("listen for TLS: %w", err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(ctx, d+10*time.Second)
	defer cancel()
	type result struct {
		bytes int64
		took  time.Duration
		err   error
	}
	got := make(chan result, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			got <- result{err: err}
			return
		}
		defer conn.Close()
		buf := make([]byte, tlsChunk)
		// The first chunk warms up handshake, buffers and congestion window and is not counted.
		if _, err := io.ReadFull(conn, buf); err != nil {
			got <- result{err: err}
			return
		}
		start := time.Now()
		var n int64
		for {
			k, err := conn.Read(buf)
			n += int64(k)
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = nil
				}
				got <- result{n, time.Since(start), err}
				return
			}
		}
	}()
	dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots(config), ServerName: "bench", MinVersion: tls.VersionTLS13}}
	conn, err := dialer.DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return 0, fmt.Errorf("dial TLS: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	chunk := make([]byte, tlsChunk)
	for end := time.Now().Add(d); time.Now().Before(end); {
		if _, err := conn.Write(chunk); err != nil {
			return 0, fmt.Errorf("write TLS: %w", err)
		}
	}
	if c, ok := conn.(*tls.Conn); ok {
		if err := c.CloseWrite(); err != nil {
			return 0, fmt.Errorf("close TLS: %w", err)
		}
	}
	r := <-got
	if r.err != nil || r.took <= 0 {
		return 0, fmt.Errorf("read TLS: %w", errors.Join(r.err, ctx.Err()))
	}
	return float64(r.bytes) / r.took.Seconds(), nil
}

func selfSigned() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"bench"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate: %w", err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}}}, nil
}

func roots(c *tls.Config) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificates[0].Leaf)
	return pool
}
