package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// The AWS SDK for Go 2 with its defaults.
func runAws(endpoint, access, secret, bucket string) {
	ctx := context.Background()
	client := func(secret string) *s3.Client {
		return s3.New(s3.Options{
			BaseEndpoint: &endpoint, Region: "eu-west-1", UsePathStyle: true,
			Credentials: credentials.NewStaticCredentialsProvider(access, secret, ""),
		})
	}
	c, b := client(secret), &bucket
	body := noise(100_000)
	_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: aws.String("zipped"), Body: bytes.NewReader(body),
		ContentEncoding: aws.String("gzip"), Metadata: map[string]string{"a": "1"}})
	must(err, "put")
	got, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: b, Key: aws.String("zipped")})
	must(err, "get")
	read, err := io.ReadAll(got.Body)
	must(err, "read")
	check(same(read, body) && *got.ContentEncoding == "gzip" && got.Metadata["a"] == "1", "an encoded body comes back")

	attributes, err := c.GetObjectAttributes(ctx, &s3.GetObjectAttributesInput{Bucket: b, Key: aws.String("zipped"),
		ObjectAttributes: []types.ObjectAttributes{types.ObjectAttributesEtag, types.ObjectAttributesObjectSize, types.ObjectAttributesChecksum}})
	must(err, "attributes")
	check(*attributes.ObjectSize == int64(len(body)) && attributes.ETag != nil && attributes.Checksum != nil, "several attributes")

	for _, algorithm := range []types.ChecksumAlgorithm{types.ChecksumAlgorithmCrc32, types.ChecksumAlgorithmCrc32c,
		types.ChecksumAlgorithmCrc64nvme, types.ChecksumAlgorithmSha1, types.ChecksumAlgorithmSha256} {
		_, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: aws.String("sum"), Body: bytes.NewReader(body), ChecksumAlgorithm: algorithm})
		must(err, "put "+string(algorithm))
		got, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: b, Key: aws.String("sum"), ChecksumMode: types.ChecksumModeEnabled})
		must(err, "get "+string(algorithm))
		// The SDK verifies it while it reads.
		read, err := io.ReadAll(got.Body)
		must(err, "read "+string(algorithm))
		check(same(read, body), "checksum "+string(algorithm))
	}
	// The newer kinds come from the caller. The value is that of "abc".
	_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: aws.String("new"), Body: strings.NewReader("abc"), ChecksumXXHASH128: aws.String("BrBatnM6YYV4r1+UiS85UA==")})
	must(err, "put XXHASH128")
	head, err := c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b, Key: aws.String("new"), ChecksumMode: types.ChecksumModeEnabled})
	must(err, "head XXHASH128")
	check(head.ChecksumXXHASH128 != nil && *head.ChecksumXXHASH128 == "BrBatnM6YYV4r1+UiS85UA==", "checksum XXHASH128")
	_, err = c.PutObject(ctx, &s3.PutObjectInput{Bucket: b, Key: aws.String("new"), Body: strings.NewReader("abd"), ChecksumXXHASH128: aws.String("BrBatnM6YYV4r1+UiS85UA==")})
	check(code(err) == "BadDigest", "a wrong XXHASH128 is refused")

	// The transfer manager, in parts and in parallel.
	big := noise(17 << 20)
	_, err = manager.NewUploader(c).Upload(ctx, &s3.PutObjectInput{Bucket: b, Key: aws.String("big"), Body: bytes.NewReader(big)})
	must(err, "upload")
	into := manager.NewWriteAtBuffer(nil)
	_, err = manager.NewDownloader(c).Download(ctx, into, &s3.GetObjectInput{Bucket: b, Key: aws.String("big")})
	must(err, "download")
	check(same(into.Bytes(), big), "uploaded and downloaded in parts")

	// An upload whose part is copied.
	made, err := c.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: b, Key: aws.String("copy")})
	must(err, "create")
	part, err := c.UploadPartCopy(ctx, &s3.UploadPartCopyInput{Bucket: b, Key: aws.String("copy"), UploadId: made.UploadId,
		PartNumber: aws.Int32(1), CopySource: aws.String(bucket + "/big"), CopySourceRange: aws.String("bytes=0-5242879")})
	must(err, "copy a part")
	_, err = c.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{Bucket: b, Key: aws.String("copy"), UploadId: made.UploadId,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{PartNumber: aws.Int32(1), ETag: part.CopyPartResult.ETag}}}})
	must(err, "complete")
	head, err = c.HeadObject(ctx, &s3.HeadObjectInput{Bucket: b, Key: aws.String("copy")})
	must(err, "head")
	check(*head.ContentLength == 5<<20, "a part that is copied")

	_, err = c.GetObject(ctx, &s3.GetObjectInput{Bucket: b, Key: aws.String("nothing")})
	check(code(err) == "NoSuchKey", "NoSuchKey")
	_, err = client("wrong-secret-wrong").ListBuckets(ctx, &s3.ListBucketsInput{})
	check(code(err) == "SignatureDoesNotMatch", "SignatureDoesNotMatch")
	access = "NOBODYNOBODYNOBODY00"
	_, err = client(secret).ListBuckets(ctx, &s3.ListBucketsInput{})
	check(code(err) == "InvalidAccessKeyId", "InvalidAccessKeyId")

	tagged := bucket + "-tagged"
	_, err = c.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &tagged, CreateBucketConfiguration: &types.CreateBucketConfiguration{
		Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("red")}}}})
	must(err, "create with tags")
	tags, err := c.GetBucketTagging(ctx, &s3.GetBucketTaggingInput{Bucket: &tagged})
	must(err, "tags")
	check(*tags.TagSet[0].Value == "red", "a bucket is made with tags")
}
