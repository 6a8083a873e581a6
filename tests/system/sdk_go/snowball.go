package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
)

// minio-go's PutObjectsSnowball: from memory and from a file, compressed (S2) and not, with encryption over TLS.
func runSnowball(endpoint, access, secret, bucket string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	at, err := url.Parse(endpoint)
	must(err, "endpoint")
	secure := at.Scheme == "https"
	// The certificate is the test's own.
	transport := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	c, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewStaticV4(access, secret, ""), Secure: secure, Transport: transport})
	must(err, "client")
	must(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}), "make a bucket")

	// Small ones, one of several chunks of the signature, an empty one, names that need a pax record.
	contents := map[string][]byte{"empty": {}, "large": noise(3 << 20), "long/" + strings.Repeat("name", 60): noise(5), "grüße/ä": noise(7)}
	for i := 0; i < 200; i++ {
		contents[fmt.Sprintf("small/%03d", i)] = bytes.Repeat(noise(i+1), 3)
	}
	send := func(prefix string, options minio.SnowballOptions) error {
		objects := make(chan minio.SnowballObject, len(contents))
		for name, content := range contents {
			object := minio.SnowballObject{Key: prefix + name, Size: int64(len(content)), Content: bytes.NewReader(content), ModTime: time.Now()}
			if name == "small/007" {
				object.Headers = http.Header{"Content-Type": {"text/x-own"}, "X-Amz-Meta-Own": {"yes"}}
			}
			objects <- object
		}
		close(objects)
		return c.PutObjectsSnowball(ctx, bucket, options, objects)
	}
	kinds := map[string]encrypt.ServerSide{"clear": nil}
	if secure {
		customer, err := encrypt.NewSSEC(noise(32))
		must(err, "SSE-C")
		kinds["s3"], kinds["c"] = encrypt.NewSSE(), customer
	}
	for kind, sse := range kinds {
		for _, memory := range []bool{true, false} {
			for _, compress := range []bool{true, false} {
				prefix := fmt.Sprintf("%s-%t-%t/", kind, memory, compress)
				options := minio.SnowballOptions{InMemory: memory, Compress: compress}
				options.Opts = minio.PutObjectOptions{ServerSideEncryption: sse, UserMetadata: map[string]string{"team": "red"}}
				must(send(prefix, options), "snowball "+prefix)
				for name, content := range contents {
					get := minio.GetObjectOptions{}
					if kind == "c" {
						get.ServerSideEncryption = sse
					}
					object, err := c.GetObject(ctx, bucket, prefix+name, get)
					must(err, "get "+prefix+name)
					data, err := io.ReadAll(object)
					must(err, "read "+prefix+name)
					info, err := object.Stat()
					must(err, "stat "+prefix+name)
					own := name == "small/007"
					if !same(data, content) || info.UserMetadata["Team"] != "red" || own != (info.ContentType == "text/x-own") || own != (info.UserMetadata["Own"] == "yes") {
						check(false, fmt.Sprintf("%s%s: %d bytes, %v %s", prefix, name, len(data), info.UserMetadata, info.ContentType))
					}
				}
				check(true, "every entry of "+prefix)
			}
		}
	}
	options := minio.SnowballOptions{InMemory: true}
	options.Opts.UserMetadata = map[string]string{"X-Amz-Meta-Minio-Snowball-Prefix": "below"}
	must(send("it/", options), "with a prefix")
	_, err = c.StatObject(ctx, bucket, "below/it/small/000", minio.StatObjectOptions{})
	must(err, "below the prefix")

	one := func(object minio.SnowballObject) string {
		objects := make(chan minio.SnowballObject, 1)
		object.Size, object.Content = 1, strings.NewReader("x")
		objects <- object
		close(objects)
		err := c.PutObjectsSnowball(ctx, bucket, minio.SnowballOptions{InMemory: true, Compress: true}, objects)
		return minio.ToErrorResponse(err).Code
	}
	check(one(minio.SnowballObject{Key: "a/../../b"}) == "InvalidArgument", "a name that climbs is refused")
	check(one(minio.SnowballObject{Key: "v", VersionID: "6d8a4d6c-6a36-4b4f-8d2e-b6a4e6a80c33"}) == "NotImplemented", "a version id is refused by name")
	for info := range c.ListObjects(ctx, bucket, minio.ListObjectsOptions{}) {
		must(info.Err, "list")
		check(strings.HasSuffix(info.Key, "/"), "no archive is stored: "+info.Key)
	}
	must(c.RemoveBucketWithOptions(ctx, bucket, minio.RemoveBucketOptions{ForceDelete: true}), "delete by force")
}
