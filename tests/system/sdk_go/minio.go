package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/encrypt"
)

// minio-go: encryption by the server in every form, notifications, lists with metadata, forced deletion.
func runMinio(endpoint, access, secret, bucket string) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	at, err := url.Parse(endpoint)
	must(err, "endpoint")
	// The certificate is the test's own.
	transport := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	c, err := minio.New(at.Host, &minio.Options{Creds: credentials.NewStaticV4(access, secret, ""), Secure: at.Scheme == "https", Transport: transport})
	must(err, "client")
	must(c.MakeBucket(ctx, bucket, minio.MakeBucketOptions{}), "make a bucket")
	read := func(key string, sse encrypt.ServerSide) []byte {
		object, err := c.GetObject(ctx, bucket, key, minio.GetObjectOptions{ServerSideEncryption: sse})
		must(err, "get "+key)
		data, err := io.ReadAll(object)
		must(err, "read "+key)
		return data
	}

	events := c.ListenBucketNotification(ctx, bucket, "told/", "", []string{"s3:ObjectCreated:*"})
	heard := make(chan string, 64)
	go func() {
		for info := range events {
			must(info.Err, "listen")
			for _, record := range info.Records {
				heard <- record.S3.Object.Key
			}
		}
	}()

	kms, err := encrypt.NewSSEKMS("", map[string]string{"team": "red"})
	must(err, "SSE-KMS")
	customer, err := encrypt.NewSSEC(noise(32))
	must(err, "SSE-C")
	for name, sse := range map[string]encrypt.ServerSide{"none": nil, "s3": encrypt.NewSSE(), "kms": kms, "c": customer} {
		var back encrypt.ServerSide
		if name == "c" {
			back = sse
		}
		for size, key := range map[int]string{1000: name + "-small", 12 << 20: name + "-big"} {
			data := noise(size)
			options := minio.PutObjectOptions{ServerSideEncryption: sse, PartSize: 5 << 20, UserMetadata: map[string]string{"a": "1"}, ContentEncoding: "gzip"}
			_, err := c.PutObject(ctx, bucket, key, bytes.NewReader(data), int64(size), options)
			must(err, "put "+key)
			check(same(read(key, back), data), "encrypted "+key)
		}
		// Of unknown length: parts as they come.
		data := noise(6 << 20)
		_, err := c.PutObject(ctx, bucket, name+"-stream", io.MultiReader(bytes.NewReader(data)), -1,
			minio.PutObjectOptions{ServerSideEncryption: sse, PartSize: 5 << 20})
		must(err, "put "+name+"-stream")
		check(same(read(name+"-stream", back), data), "streamed "+name)
		source := minio.CopySrcOptions{Bucket: bucket, Object: name + "-big"}
		if name == "c" {
			source.Encryption = encrypt.SSECopy(sse)
		}
		_, err = c.ComposeObject(ctx, minio.CopyDestOptions{Bucket: bucket, Object: name + "-composed", Encryption: sse}, source, source)
		must(err, "compose "+name)
		check(len(read(name+"-composed", back)) == 24<<20, "composed "+name)
	}

	// A listener is heard of when it stands: what is put is put until one is told of it.
	told := ""
	for i := 0; told == "" && i < 600; i++ {
		_, err = c.PutObject(ctx, bucket, "told/key", strings.NewReader("x"), 1, minio.PutObjectOptions{UserMetadata: map[string]string{"Team": "red"}, UserTags: map[string]string{"a": "b"}})
		must(err, "put")
		select {
		case told = <-heard:
		case <-time.After(100 * time.Millisecond):
		}
	}
	check(told == "told%2Fkey" || told == "told/key", "a notification")

	found := map[string]minio.ObjectInfo{}
	for info := range c.ListObjects(ctx, bucket, minio.ListObjectsOptions{Recursive: true, WithMetadata: true}) {
		must(info.Err, "list")
		found[info.Key] = info
	}
	entry := found["told/key"]
	check(entry.UserMetadata["X-Amz-Meta-Team"] == "red" && entry.UserTags["a"] == "b", "a list with metadata")

	err = c.RemoveBucket(ctx, bucket)
	check(minio.ToErrorResponse(err).Code == "BucketNotEmpty", "a full bucket stays")
	must(c.RemoveBucketWithOptions(ctx, bucket, minio.RemoveBucketOptions{ForceDelete: true}), "delete by force")
	exists, err := c.BucketExists(ctx, bucket)
	must(err, "exists")
	check(!exists, "a bucket is deleted with its content")
}
