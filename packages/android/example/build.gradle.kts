// SPDX-License-Identifier: Apache-2.0
plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

android {
    namespace = "org.mebp.example"
    compileSdk = 34
    defaultConfig {
        applicationId = "org.mebp.example"
        minSdk = 26
        targetSdk = 34
        versionCode = 1
        versionName = "1"
        ndk { abiFilters += "arm64-v8a" }
    }
    // src/main/assets has model.mebp/ and chat.jsonl; what is compressed cannot be mapped.
    androidResources { noCompress += listOf("pb", "json", "bin") }
    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }
    kotlinOptions { jvmTarget = "1.8" }
}

dependencies {
    implementation(project(":mebp"))
    implementation("androidx.work:work-runtime-ktx:2.9.1")
}
