// Package links holds tests of whole swarms of real processes whose nodes have network namespaces of their own: links that
// are slow, cut or split, nodes that are killed, stopped and come back. Root is needed.
package links
