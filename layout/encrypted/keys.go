// Package encrypted reads and writes the keys by which an APR2 file or manifest says that it is signed or
// encrypted. It encrypts and decrypts blocks. The layout is an extension of the format, version 1 of minor
// version 1; docs/trust.md describes it.
//
// It keeps no keys and trusts nobody: package trust does.
package encrypted

import (
	"bytes"
	"encoding/base64"

	"github.com/tensormap/tensormap/layout"
	"github.com/tensormap/tensormap/layout/jsontext"
)

// Keys holds what the metadata of a file, or a manifest, say of their protection. Members are nil if they say
// nothing.
type Keys struct {
	Signature  *Signature
	Encryption *Encryption
}

// Parse reads the keys in text: a file's metadata, which starts at offset at, or a whole manifest. A key
// that occurs twice, at any depth, is an error. A nil lim means the defaults.
func Parse(text []byte, f layout.Format, at uint64, lim *layout.Limits) (k Keys, err error) {
	limits := lim.WithDefaults()
	const outer = "metadata"
	js := jsontext.New(text, f, at, outer, limits)
	for key := range js.Members("an object") {
		switch {
		case key == "signature" && js.Next() == '{':
			js.Field, k.Signature = "signature", new(Signature)
			k.Signature.parse(&js, text, at, f == layout.APR2)
		case key == "encryption":
			js.Field, k.Encryption = "encryption", new(Encryption)
			k.Encryption.parse(&js, text, at, f == layout.APR2, limits)
		}
		js.Field = outer
	}
	js.End()
	return k, js.Err()
}

// FormatOf returns which format with such keys a file may have, by its first bytes: APR2, Manifest or Unknown.
func FormatOf(in layout.Input) (layout.Format, error) {
	start, err := in.Slice(0, min(64, in.Size()))
	switch {
	case bytes.HasPrefix(start, []byte("APR2")):
		return layout.APR2, err
	case bytes.HasPrefix(bytes.TrimLeft(start, " \t\r\n"), []byte("{")):
		return layout.Manifest, err
	}
	return layout.Unknown, err
}

// ReadManifest returns the text of a manifest, in memory that nobody else can change, and its keys.
func ReadManifest(in layout.Input, lim *layout.Limits) (text []byte, k Keys, err error) {
	text, err = layout.LimitedRegion(in, layout.Manifest, 0, "manifest", 0, in.Size(), lim.WithDefaults().HeaderBytes)
	if err != nil {
		return nil, k, err
	}
	text = bytes.Clone(text)
	k, err = Parse(text, layout.Manifest, 0, lim)
	return text, k, err
}

// Finisher is what completes the head of a file, or a manifest. Members that are nil leave their key as it is.
type Finisher struct {
	Cipher *Cipher                              // makes the check of the encryption
	Sign   func(message []byte) ([]byte, error) // makes the signature
}

// Complete fills in the placeholders in head, whose metadata is n bytes at offset at. For a signature, digest returns the digests of
// the data in chunks of a size.
func (s Finisher) Complete(head []byte, at, n int, digest func(chunk uint64) ([]byte, error)) error {
	k, err := Parse(head[at:at+n], layout.APR2, uint64(at), nil)
	if err != nil {
		return err
	}
	if s.Sign != nil {
		digests, err := digest(k.Signature.ChunkSize)
		if err == nil {
			err = k.Signature.putDigests(head, at, digests)
		}
		if err != nil {
			return err
		}
	}
	return s.putCheckAndSignature(k, head, at)
}

// Manifest adds the objects of its keys to the text of a manifest, and completes them. Objects that are nil
// are left out.
func (s Finisher) Manifest(text []byte, signature, encryption layout.Metadata) ([]byte, error) {
	end := bytes.LastIndexByte(text, '}')
	text = bytes.TrimRight(text[:end:end], " \n")
	for _, o := range []layout.Entry{{Key: "encryption", Value: encryption}, {Key: "signature", Value: signature}} {
		object := o.Value.(layout.Metadata)
		if object == nil {
			continue
		}
		b, err := object.MarshalJSON()
		if err != nil {
			return nil, err
		}
		text = append(append(text, ",\n  \""+o.Key+"\": "...), b...)
	}
	text = append(text, "\n}\n"...)
	k, err := Parse(text, layout.Manifest, 0, nil)
	if err != nil {
		return nil, err
	}
	return text, s.putCheckAndSignature(k, text, 0)
}

// putCheckAndSignature writes the check, and then the signature, which covers it.
func (s Finisher) putCheckAndSignature(k Keys, b []byte, at int) error {
	if s.Cipher != nil {
		base64.StdEncoding.Encode(b[at+k.Encryption.check:][:checkChars], k.checkTag(s.Cipher, b, at))
	}
	if s.Sign == nil {
		return nil
	}
	sig, err := s.Sign(k.Signature.message(b, at))
	if err == nil {
		base64.StdEncoding.Encode(b[at+k.Signature.value:][:valueChars], sig)
	}
	return err
}
