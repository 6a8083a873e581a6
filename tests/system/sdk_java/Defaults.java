import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import software.amazon.awssdk.auth.credentials.AwsBasicCredentials;
import software.amazon.awssdk.auth.credentials.StaticCredentialsProvider;
import software.amazon.awssdk.core.ResponseBytes;
import software.amazon.awssdk.core.async.AsyncRequestBody;
import software.amazon.awssdk.core.async.AsyncResponseTransformer;
import software.amazon.awssdk.core.sync.RequestBody;
import software.amazon.awssdk.regions.Region;
import software.amazon.awssdk.services.s3.S3AsyncClient;
import software.amazon.awssdk.services.s3.S3Client;
import software.amazon.awssdk.services.s3.model.*;
import software.amazon.awssdk.transfer.s3.S3TransferManager;

/** The AWS SDK for Java 2 as it is used today: each check prints a line, the first that fails ends it. */
class Defaults {
    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
        System.out.println("ok " + what);
    }

    static byte[] noise(int size) {
        byte[] bytes = new byte[size];
        new Random(size).nextBytes(bytes);
        return bytes;
    }

    public static void main(String[] args) throws Exception {
        String bucket = args[3];
        var credentials = StaticCredentialsProvider.create(AwsBasicCredentials.create(args[1], args[2]));
        S3Client s3 = S3Client.builder().endpointOverride(URI.create(args[0])).region(Region.EU_CENTRAL_1)
            .credentialsProvider(credentials).forcePathStyle(true).build();

        // Sent as two lines: content-encoding: gzip, content-encoding: aws-chunked.
        byte[] body = noise(100_000);
        s3.putObject(b -> b.bucket(bucket).key("zipped").contentEncoding("gzip").metadata(Map.of("a", "1")), RequestBody.fromBytes(body));
        ResponseBytes<GetObjectResponse> got = s3.getObjectAsBytes(b -> b.bucket(bucket).key("zipped"));
        check(Arrays.equals(got.asByteArray(), body), "an encoded body comes back");
        check("gzip".equals(got.response().contentEncoding()), "its encoding is gzip alone");
        check("1".equals(got.response().metadata().get("a")), "metadata");

        // Two lines again: x-amz-object-attributes.
        var attributes = s3.getObjectAttributes(b -> b.bucket(bucket).key("zipped")
            .objectAttributes(ObjectAttributes.E_TAG, ObjectAttributes.OBJECT_SIZE, ObjectAttributes.CHECKSUM));
        check(attributes.objectSize() == body.length && attributes.eTag() != null, "several attributes");
        check(attributes.checksum() != null, "the default checksum is kept");

        for (ChecksumAlgorithm algorithm : List.of(ChecksumAlgorithm.CRC32, ChecksumAlgorithm.CRC32_C, ChecksumAlgorithm.SHA1, ChecksumAlgorithm.SHA256)) {
            var put = s3.putObject(b -> b.bucket(bucket).key("sum").checksumAlgorithm(algorithm), RequestBody.fromBytes(body));
            check((put.checksumCRC32() != null ? put.checksumCRC32() : put.checksumCRC32C() != null ? put.checksumCRC32C()
                : put.checksumSHA1() != null ? put.checksumSHA1() : put.checksumSHA256()) != null, "checksum " + algorithm);
            // The SDK verifies it while it reads.
            check(Arrays.equals(s3.getObjectAsBytes(b -> b.bucket(bucket).key("sum").checksumMode(ChecksumMode.ENABLED)).asByteArray(), body),
                "verified " + algorithm);
        }

        // Conditions, and their errors as types of the SDK.
        try {
            s3.putObject(b -> b.bucket(bucket).key("sum").ifNoneMatch("*"), RequestBody.fromString("x"));
            throw new AssertionError("a condition that does not hold");
        } catch (S3Exception e) {
            check(e.statusCode() == 412, "a condition that does not hold");
        }
        try {
            s3.headBucket(b -> b.bucket("no-such-bucket-here"));
            throw new AssertionError("a bucket that is not there");
        } catch (NoSuchBucketException e) {
            check(true, "a bucket that is not there");
        }

        // Multipart by hand with a checksum of the whole, and a part that is copied.
        byte[] big = noise(6 << 20);
        s3.putObject(b -> b.bucket(bucket).key("source"), RequestBody.fromBytes(big));
        String id = s3.createMultipartUpload(b -> b.bucket(bucket).key("parts").checksumAlgorithm(ChecksumAlgorithm.CRC32)
            .checksumType(ChecksumType.FULL_OBJECT)).uploadId();
        var first = s3.uploadPartCopy(b -> b.sourceBucket(bucket).sourceKey("source").destinationBucket(bucket).destinationKey("parts")
            .uploadId(id).partNumber(1)).copyPartResult();
        var second = s3.uploadPart(b -> b.bucket(bucket).key("parts").uploadId(id).partNumber(2).checksumAlgorithm(ChecksumAlgorithm.CRC32), RequestBody.fromBytes(body));
        s3.completeMultipartUpload(b -> b.bucket(bucket).key("parts").uploadId(id).checksumType(ChecksumType.FULL_OBJECT).multipartUpload(m -> m.parts(
            CompletedPart.builder().partNumber(1).eTag(first.eTag()).checksumCRC32(first.checksumCRC32()).build(),
            CompletedPart.builder().partNumber(2).eTag(second.eTag()).checksumCRC32(second.checksumCRC32()).build())));
        byte[] whole = s3.getObjectAsBytes(b -> b.bucket(bucket).key("parts")).asByteArray();
        check(whole.length == big.length + body.length && Arrays.equals(Arrays.copyOf(whole, big.length), big), "parts, one of them copied");

        // The transfer manager over the multipart client: upload, copy and download in parts.
        try (S3AsyncClient async = S3AsyncClient.builder().endpointOverride(URI.create(args[0])).region(Region.US_EAST_1)
                .credentialsProvider(credentials).forcePathStyle(true).multipartEnabled(true)
                .multipartConfiguration(m -> m.minimumPartSizeInBytes(5L << 20).thresholdInBytes(5L << 20)).build();
             S3TransferManager transfer = S3TransferManager.builder().s3Client(async).build()) {
            byte[] huge = noise(17 << 20);
            Path file = Files.createTempFile("ashlar", ".bin"), back = Files.createTempFile("ashlar", ".back");
            Files.write(file, huge);
            transfer.uploadFile(u -> u.source(file).putObjectRequest(p -> p.bucket(bucket).key("huge"))).completionFuture().join();
            check(s3.headObject(b -> b.bucket(bucket).key("huge")).eTag().contains("-"), "uploaded in parts");
            transfer.copy(c -> c.copyObjectRequest(r -> r.sourceBucket(bucket).sourceKey("huge").destinationBucket(bucket).destinationKey("copy")))
                .completionFuture().join();
            transfer.downloadFile(d -> d.destination(back).getObjectRequest(g -> g.bucket(bucket).key("copy"))).completionFuture().join();
            check(Arrays.equals(Files.readAllBytes(back), huge), "copied and downloaded in parts");
            async.putObject(b -> b.bucket(bucket).key("unknown-length"), AsyncRequestBody.fromBytes(huge)).join();
            byte[] read = async.getObject(b -> b.bucket(bucket).key("unknown-length"), AsyncResponseTransformer.toBytes()).join().asByteArray();
            check(Arrays.equals(read, huge), "the asynchronous client");
            Files.delete(file);
            Files.delete(back);
        }
        var keys = s3.listObjectsV2Paginator(b -> b.bucket(bucket).maxKeys(2)).contents().stream().map(S3Object::key).toList();
        check(keys.contains("huge") && keys.size() >= 6, "pages");
        var deleted = s3.deleteObjects(b -> b.bucket(bucket).delete(d -> d.objects(keys.stream().map(k -> ObjectIdentifier.builder().key(k).build()).toList())));
        check(deleted.deleted().size() == keys.size() && !deleted.hasErrors(), "many are deleted at once");
        s3.close();
    }
}
